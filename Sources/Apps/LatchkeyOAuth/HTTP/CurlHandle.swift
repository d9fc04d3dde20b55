internal import CCurl
internal import LatchkeyPlatform

/// A `CURL *`.
struct CurlHandle {
    /// libcurl did not accept an option, because it is older than 7.87 or was built without the
    /// option.
    struct RefusedOption: Error {
        let code: CURLcode
    }

    /// Whether libcurl could be initialized, by the first access, which blocks.
    static let isLibraryInitialized: Bool = {
        // Otherwise libcurl would write the keys of all TLS sessions to the file that this variable
        // names. An app that initializes libcurl before decides that itself.
        guard let variable = EnvironmentVariable(setting: "SSLKEYLOGFILE=") else { return false }
        defer { variable.unset() }
        return curl_global_init(Int(CURL_GLOBAL_DEFAULT)) == CURLE_OK
    }()

    let pointer: UnsafeMutableRawPointer

    func set(_ option: CURLoption, _ value: Int) throws(RefusedOption) {
        try Self.check(latchkey_curl_set_number(pointer, option, value))
    }

    /// libcurl copies strings, except a request's body.
    func set(_ option: CURLoption, _ value: UnsafeRawPointer?) throws(RefusedOption) {
        try Self.check(latchkey_curl_set_pointer(pointer, option, value))
    }

    func set(_ option: CURLoption, _ value: @escaping curl_write_callback) throws(RefusedOption) {
        try Self.check(latchkey_curl_set_writer(pointer, option, value))
    }

    /// Before each connection: creates its socket.
    func setOpener(_ value: @escaping curl_opensocket_callback) throws(RefusedOption) {
        try Self.check(latchkey_curl_set_opener(pointer, value))
    }

    /// After each connection and before the first byte of the request.
    func setPrerequest(_ value: @escaping curl_prereq_callback) throws(RefusedOption) {
        try Self.check(latchkey_curl_set_prerequest(pointer, value))
    }

    func number(_ information: CURLINFO) -> Int {
        var value = 0
        return latchkey_curl_get_number(pointer, information, &value) == CURLE_OK
            ? value : 0
    }

    private static func check(_ code: CURLcode) throws(RefusedOption) {
        guard code == CURLE_OK else { throw RefusedOption(code: code) }
    }
}
