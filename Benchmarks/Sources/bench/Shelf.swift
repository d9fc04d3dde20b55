import Foundation
import Latchkey
import LatchkeyCredentials
import LatchkeySimulators
import LatchkeyTPM
import TPM2

/// A store of credentials in a program that has just started.
struct Shelf {
    let store: CredentialStore
    private let records: RecordContainer

    init(_ tpm: SoftwareTPM, _ directory: TemporaryDirectory, _ counter: CountingTransport.Counter)
        async throws
    {
        let file = try await RecordStore(directory: directory.path)
        let tcti = tpm.tcti
        let keystore = TPMKeystore(anchors: file) { () throws(TPMError) in
            try CountingTransport(tcti, counter)
        }
        records = try RecordContainer(store: file, keystore: keystore)
        store = CredentialStore(records: records)
        Credential.storage = store
    }

    /// Stores credentials with the ID `c…`, the tag `n` and the subject `user-…`. Stores the first
    /// one through the API and the others as copies of its rows, many in one transaction.
    func fill(from start: Int, to end: Int) async throws {
        try await CredentialStore.bootstrap(store)
        if start == 0 {
            try Credential.store(
                token: Self.token("c0", subject: "user-0"), tags: ["n": "0", "group": "0"])
        }
        let prompt = PromptContext(reason: "fill the store")
        var rows: [(record: Record, payload: SecretBytes?)] = []
        for name in ["metadata", "token"] {
            guard
                let row = try await records.read(
                    RecordID(rawValue: "credential.\(name).c0"), for: prompt)
            else {
                throw Failure(reason: "the first credential is missing")
            }
            rows.append(row)
        }
        for page in stride(from: max(start, 1), to: end, by: 1000) {
            let changes = (page..<min(page + 1000, end)).flatMap { number in
                rows.map { row in
                    RecordChange.put(
                        Self.copy(row.record, number), payload: row.payload, ifGeneration: 0)
                }
            }
            try await records.apply(changes, for: prompt)
        }
    }

    private static func copy(_ record: Record, _ number: Int) -> Record {
        var attributes = record.attributes.mapValues {
            $0.replacing("user-0", with: "user-\(number)")
        }
        if attributes["tag.n"] != nil {
            attributes["tag.n"] = "\(number)"
            attributes["tag.group"] = "\(number % 100)"
        }
        return Record(
            id: RecordID(rawValue: record.id.rawValue.replacing("c0", with: "c\(number)")),
            kind: record.kind,
            protection: record.protection, attributes: attributes)
    }

    /// A token response with an ID token of one kilobyte.
    static func token(_ id: String, subject: String) throws -> Token {
        func part(_ json: String) -> String {
            Data(json.utf8).base64EncodedString().replacing("+", with: "-").replacing(
                "/", with: "_"
            )
            .replacing("=", with: "")
        }
        let claims = """
            {"iss":"https://login.example.com","aud":"app","sub":"\(subject)","iat":1700000000,"exp":1900000000,\
            "email":"jane@example.com","name":"Jane Doe"}
            """
        let signature = String(repeating: "c2ln", count: 21)
        let idToken = "\(part(#"{"alg":"ES256","kid":"k"}"#)).\(part(claims)).\(signature)"
        let response = """
            {"access_token":"\(String(repeating: "a", count: 600))","token_type":"Bearer","expires_in":3600,\
            "refresh_token":"\(String(repeating: "r", count: 64))","scope":"openid offline_access",\
            "id_token":"\(idToken)"}
            """
        return try Token(response: Data(response.utf8), id: id)
    }
}
