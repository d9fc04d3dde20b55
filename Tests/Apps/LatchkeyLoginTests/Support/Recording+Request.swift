import Foundation
import HTTPTypes
import Latchkey
import LatchkeyJOSE
import LatchkeyTesting

extension RecordingTransport {
    /// The requests, in order: method, path, and for the token endpoint the grant.
    var summary: [String] {
        recordings.map { recording in
            let line = "\(recording.request.method) \(recording.request.path ?? "")"
            return recording.form["grant_type"].map {
                "\(line) \($0.split(separator: ":").last ?? "")"
            } ?? line
        }
    }
}

extension RecordingTransport.Recording {
    /// The names and values of a form body.
    var form: [String: String] {
        guard request.headerFields[.contentType] == "application/x-www-form-urlencoded" else {
            return [:]
        }
        var components = URLComponents()
        components.percentEncodedQuery = text
        return Dictionary((components.queryItems ?? []).map { ($0.name, $0.value ?? "") }) {
            first, _ in first
        }
    }

    /// Header and payload of the form's JWT.
    var jwt: (header: [String: Any], payload: [String: Any])? {
        guard
            let parts = form["jwt"].flatMap({ try? ReceivedJWS($0) }),
            let header = try? JSONSerialization.jsonObject(with: parts.headerJSON)
                as? [String: Any],
            let payload = try? JSONSerialization.jsonObject(with: parts.payloadJSON)
                as? [String: Any]
        else { return nil }
        return (header, payload)
    }
}
