internal import FoundationEssentials
package import Latchkey

/// A key that the agent offers, with its settings: a record of its own kind in a container.
///
/// The record is authenticated with the container's device key, so a change of the store's file
/// cannot turn a login key into an SSH key or remove a restriction. The facades and `latchkey key`
/// use other kinds of records.
package struct SSHKeyRecord: Hashable, Sendable {
    package static let kind = "ssh.key"

    package var key: HardwareKey
    package var settings: SSHKeySettings
    package var certificate: SSHCertificate?
    /// The generation of the stored record; 0 if it is not stored.
    package let generation: Int

    package init(_ key: HardwareKey, settings: SSHKeySettings = SSHKeySettings()) {
        (self.key, self.settings) = (key, settings)
        generation = 0
    }

    /// The key as OpenSSH encodes it.
    package var publicKey: SSHPublicKey { SSHPublicKey(key.publicKey) }
    /// The label if there is one, otherwise the ID, in one line: another program can have written
    /// the row, and clients of the agent show the name.
    package var name: String { String(oneLine: key.label ?? key.id.rawValue, limit: 256) }

    package static func id(of key: KeyID) -> RecordID {
        RecordID(rawValue: "\(kind).\(key.rawValue)")
    }

    // MARK: The stored form

    private enum Name: String, CaseIterable {
        case forwarding, anything, unverified, destinations, certificate
    }

    private static let yes = "1"

    /// - Throws: ``KeystoreError`` with code `damaged` for a record that this version does not
    ///   understand completely: an unknown attribute may be a restriction.
    package init(_ record: Record) throws(KeystoreError) {
        guard record.kind == Self.kind, let key = record.key, record.id == Self.id(of: key.id)
        else {
            throw .damaged("the record ‘\(record.id)’ is not the record of an SSH key")
        }
        self.init(key, record)
        for (name, value) in record.attributes {
            guard let name = Name(rawValue: name), read(name, value) else {
                throw .damaged(
                    "the record of the SSH key ‘\(key.id)’ has an unknown setting ‘\(String(oneLine: name, limit: 40))’"
                )
            }
        }
    }

    private init(_ key: HardwareKey, _ record: Record) {
        self.key = key
        settings = SSHKeySettings()
        generation = record.generation
    }

    private mutating func read(_ name: Name, _ value: String) -> Bool {
        switch name {
        case .forwarding: settings.allowsForwarding = value == Self.yes
        case .anything: settings.signsAnything = value == Self.yes
        case .unverified: settings.isOfferedWithoutVerification = value == Self.yes
        case .destinations:
            guard
                let rules = try? JSONDecoder().decode(
                    [SSHDestination].self, from: Data(value.utf8)), !rules.isEmpty
            else { return false }
            settings.destinations = rules
        case .certificate:
            guard let blob = Data(base64Encoded: value),
                let certificate = try? SSHCertificate(Array(blob)),
                certificate.publicKey == publicKey.blob
            else { return false }
            self.certificate = certificate
        }
        return true
    }

    package var record: Record {
        get throws(KeystoreError) {
            var attributes: [String: String] = [:]
            if settings.allowsForwarding { attributes[Name.forwarding.rawValue] = Self.yes }
            if settings.signsAnything { attributes[Name.anything.rawValue] = Self.yes }
            if settings.isOfferedWithoutVerification {
                attributes[Name.unverified.rawValue] = Self.yes
            }
            if !settings.destinations.isEmpty {
                do {
                    let rules = try JSONEncoder().encode(settings.destinations)
                    attributes[Name.destinations.rawValue] = String(decoding: rules, as: UTF8.self)
                } catch {
                    throw .damaged("the destinations cannot be encoded")
                }
            }
            if let certificate {
                attributes[Name.certificate.rawValue] = Data(certificate.blob).base64EncodedString()
            }
            return Record(
                id: Self.id(of: key.id), kind: Self.kind, attributes: attributes, key: key)
        }
    }
}

extension SSHKeyRecord {
    /// Checks that a key may be offered.
    ///
    /// - Throws: ``KeystoreError`` with code `unsupported` for a key without user verification,
    ///   unless the user permitted it.
    package func checkVerification() throws(KeystoreError) {
        guard key.policy == .none, !settings.isOfferedWithoutVerification else { return }
        throw .unsupported(
            "the hardware uses the key ‘\(name)’ without a PIN or fingerprint, so any program could log in with it",
            recovery: Recovery(
                "Create a key with the policy ‘pin’ or ‘user-presence’, or permit this one.",
                .choosePolicy, .offerWithoutVerification))
    }
}
