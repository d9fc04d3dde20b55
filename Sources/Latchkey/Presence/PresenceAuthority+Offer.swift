extension PresenceAuthority {
    /// Offers a finger and a PIN together. The first proof is taken and the other prompt is withdrawn. Where one of both
    /// can't be had, or the finger is another one, the other is waited for; a person who refuses the PIN has refused.
    ///
    /// - Throws: ``KeystoreError`` when neither can be asked for: what kept the finger from being asked for.
    package func offer(
        _ finger: ApprovalRequest, to broker: any ApprovalService, or pin: PINRequest
    ) async throws(KeystoreError) -> PresenceAnswer {
        let result = await withTaskGroup(of: Offered.self) { group in
            group.addTask {
                .finger(await Result { () async throws(KeystoreError) in try await broker.approve(finger) })
            }
            group.addTask { .pin(await Result { () async throws(KeystoreError) in try await self.pin(pin) }) }
            var standing = Standing()
            while let offered = await group.next() {
                guard let answer = standing.receive(offered) else { continue }
                group.cancelAll()
                // Both prompts are gone before anybody goes on.
                await group.waitForAll()
                return Result<PresenceAnswer, KeystoreError>.success(answer)
            }
            return standing.outcome
        }
        return try result.get()
    }
}

private enum Offered: Sendable {
    case finger(Result<ApprovalAnswer, KeystoreError>)
    case pin(Result<PINAnswer, KeystoreError>)
}

/// What is known so far.
private struct Standing {
    private var finger: Result<PresenceAnswer, KeystoreError>?
    private var pin: KeystoreError?

    /// - Returns: The answer that ends the wait.
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

    /// What to say when both are over and neither was a proof.
    var outcome: Result<PresenceAnswer, KeystoreError> {
        finger ?? .failure(pin ?? .cancelled("ask for a finger or the PIN"))
    }
}

extension Result where Failure == KeystoreError {
    /// The outcome of work that suspends.
    fileprivate init(_ body: () async throws(KeystoreError) -> Success) async {
        do throws(KeystoreError) { self = .success(try await body()) } catch { self = .failure(error) }
    }
}
