/// Which request changes the records next: one at a time, so that a permission and the record that it
/// is based on change together. Root's requests come before those of other users, of which at most
/// one waits: each can run scrypt several times. The users that root's requests name take turns: each
/// user can start passwd many times.
actor SignInTurns {
    private var isTaken = false
    /// With the user that the request names.
    private var ofRoot: [(user: UInt32, request: CheckedContinuation<Void, Never>)] = []
    private var order = FairTurns()
    private var ofOther: CheckedContinuation<Void, Never>?

    /// The number of requests that wait.
    var waiting: Int { ofRoot.count + (ofOther == nil ? 0 : 1) }

    /// Waits for the turn. Call ``end()`` after it.
    ///
    /// - Parameter user: The user that the request names.
    /// - Returns: false for a request that may not wait.
    func begin(for user: UInt32, isRoot: Bool) async -> Bool {
        guard isTaken else {
            isTaken = true
            if isRoot { order.begin(user) }
            return true
        }
        guard isRoot || ofOther == nil else { return false }
        await withCheckedContinuation {
            if isRoot { ofRoot.append((user, $0)) } else { ofOther = $0 }
        }
        return true
    }

    func end() {
        if let index = order.next(of: ofRoot.map(\.user)) {
            let next = ofRoot.remove(at: index)
            order.begin(next.user)
            next.request.resume()
        } else if let next = ofOther {
            ofOther = nil
            next.resume()
        } else {
            isTaken = false
        }
    }
}
