extension PresenceAuthority {
    /// Prompts for a fingerprint and a PIN together. The first proof counts, and the other prompt
    /// is withdrawn. If one of them is not available, or the fingerprint does not match, the other
    /// continues. A user who declines the PIN declines both.
    ///
    /// - Throws: ``KeystoreError`` if neither prompt is possible: the fingerprint's error.
    package func offer(
        _ finger: ApprovalRequest, to broker: any ApprovalService, or pin: PINRequest
    ) async throws(KeystoreError) -> PresenceAnswer {
        let result = await withTaskGroup(of: Offered.self) { group in
            group.addTask {
                .finger(
                    await Result { () async throws(KeystoreError) in
                        try await broker.approve(finger)
                    })
            }
            group.addTask {
                .pin(await Result { () async throws(KeystoreError) in try await self.pin(pin) })
            }
            var results = OfferResults()
            while let offered = await group.next() {
                guard let answer = results.receive(offered) else { continue }
                group.cancelAll()
                // Both prompts are withdrawn before the operation continues.
                await group.waitForAll()
                return Result<PresenceAnswer, KeystoreError>.success(answer)
            }
            return results.outcome
        }
        return try result.get()
    }
}

private enum Offered: Sendable {
    case finger(Result<ApprovalAnswer, KeystoreError>)
    case pin(Result<PINAnswer, KeystoreError>)
}

/// The results received so far.
private struct OfferResults {
    private var finger: Result<PresenceAnswer, KeystoreError>?
    private var pin: KeystoreError?

    /// - Returns: The answer that ends the prompts, if there is one.
    mutating func receive(_ offered: Offered) -> PresenceAnswer? {
        switch offered {
        case .finger(.success(.approved(let approval))): return .approved(approval)
        case .pin(.success(.pin(let pin))): return .pin(pin)
        case .pin(.success(.declined(let why))): return .declined(why)
        case .finger(.success(let answer)): finger = .success(PresenceAnswer(answer))
        case .finger(.failure(let error)): finger = .failure(error)
        case .pin(.failure(let error)): pin = error
        }
        return nil
    }

    /// The result if both prompts have ended without a proof.
    var outcome: Result<PresenceAnswer, KeystoreError> {
        finger ?? .failure(pin ?? .cancelled())
    }
}

extension Result where Failure == KeystoreError {
    fileprivate init(_ body: () async throws(KeystoreError) -> Success) async {
        do throws(KeystoreError) { self = .success(try await body()) } catch {
            self = .failure(error)
        }
    }
}

/// The result of a prompt for a fingerprint, or for a fingerprint and a PIN together.
package enum PresenceAnswer: Sendable {
    /// The user entered a PIN first.
    case pin(PIN)
    /// The fingerprint came first, and matched.
    case approved(PresenceApproval)
    /// The fingerprint did not match, and no PIN was entered.
    case notRecognised
    /// The user declined, or did not answer in time. The text says which.
    case declined(String)

    package init(_ answer: ApprovalAnswer) {
        self =
            switch answer {
            case .approved(let approval): .approved(approval)
            case .notRecognised: .notRecognised
            case .declined(let why): .declined(why)
            }
    }
}
