/// A public key or certificate that an agent offers, with a comment.
package struct AgentIdentity: Hashable, Sendable {
    package let publicKey: [UInt8]
    package let comment: String

    /// The maximum number of identities in an answer, as in OpenSSH.
    package static let maximumCount = 2048
    package init(publicKey: [UInt8], comment: String) {
        (self.publicKey, self.comment) = (publicKey, comment)
    }

    /// The identities of this agent, then those of another one that this agent does not have. As
    /// many as one answer can contain.
    package static func merged(
        _ own: [AgentIdentity], _ others: [AgentIdentity]
    ) -> [AgentIdentity] {
        var known: Set<[UInt8]> = []
        // The type of the answer, and the number of identities.
        var size = 1 + 4
        var merged: [AgentIdentity] = []
        for identity in own + others where known.insert(identity.publicKey).inserted {
            size += 4 + identity.publicKey.count + 4 + identity.comment.utf8.count
            guard size <= AgentRequest.maximumBytes, merged.count < maximumCount else { break }
            merged.append(identity)
        }
        return merged
    }
}
