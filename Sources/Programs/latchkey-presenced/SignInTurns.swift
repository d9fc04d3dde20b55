/// Which request changes the records next: one at a time, so that a permission and the record that it
/// is based on change together. Root's requests come before those of other users, of which at most
/// one waits: each can run scrypt several times.
actor SignInTurns {
    private var isTaken = false
    private var ofRoot: [CheckedContinuation<Void, Never>] = []
    private var ofOther: CheckedContinuation<Void, Never>?

    /// The number of requests that wait.
    var waiting: Int { ofRoot.count + (ofOther == nil ? 0 : 1) }

    /// Waits for the turn. Call ``end()`` after it.
    ///
    /// - Returns: false for a request that may not wait.
    func begin(isRoot: Bool) async -> Bool {
        guard isTaken else {
            isTaken = true
            return true
        }
        guard isRoot || ofOther == nil else { return false }
        await withCheckedContinuation {
            if isRoot { ofRoot.append($0) } else { ofOther = $0 }
        }
        return true
    }

    func end() {
        if !ofRoot.isEmpty {
            ofRoot.removeFirst().resume()
        } else if let next = ofOther {
            ofOther = nil
            next.resume()
        } else {
            isTaken = false
        }
    }
}
