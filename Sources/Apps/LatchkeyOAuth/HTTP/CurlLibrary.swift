internal import CCurl
internal import CPlatform
internal import Glibc
internal import Latchkey

/// The functions of libcurl.
///
/// The library is loaded at the first request, because loading it with the libraries that it needs
/// takes 7 ms, and most commands of a program send no request.
struct CurlLibrary: @unchecked Sendable {
    /// `CURL *` or `CURLM *`.
    typealias Handle = UnsafeMutableRawPointer
    typealias List = UnsafeMutablePointer<curl_slist>

    let easyInit: @convention(c) () -> Handle?
    let easyCleanup: @convention(c) (Handle?) -> Void
    let easyStrerror: @convention(c) (CURLcode) -> UnsafePointer<CChar>?
    let listAppend: @convention(c) (List?, UnsafePointer<CChar>?) -> List?
    let listFree: @convention(c) (List?) -> Void
    let multiInit: @convention(c) () -> Handle?
    let multiCleanup: @convention(c) (Handle?) -> CURLMcode
    let multiAdd: @convention(c) (Handle?, Handle?) -> CURLMcode
    let multiRemove: @convention(c) (Handle?, Handle?) -> CURLMcode
    let multiPerform: @convention(c) (Handle?, UnsafeMutablePointer<Int32>?) -> CURLMcode
    let multiPoll:
        @convention(c) (
            Handle?, UnsafeMutablePointer<curl_waitfd>?, UInt32, Int32, UnsafeMutablePointer<Int32>?
        ) -> CURLMcode
    let multiWakeup: @convention(c) (Handle?) -> CURLMcode
    let multiInfoRead:
        @convention(c) (Handle?, UnsafeMutablePointer<Int32>?) -> UnsafeMutablePointer<CURLMsg>?
    /// The variadic functions; see ``CurlHandle``.
    let (setopt, getinfo): (UnsafeMutableRawPointer, UnsafeMutableRawPointer)

    /// Loaded and initialized by the first access, which blocks.
    static let loaded = Result { () throws(CommonError) in try CurlLibrary(file: "libcurl.so.4") }

    init(file: String) throws(CommonError) {
        guard let library = dlopen(file, RTLD_NOW | RTLD_LOCAL) else { throw Self.missing(file) }
        func address(_ name: String) throws(CommonError) -> UnsafeMutableRawPointer {
            guard let symbol = dlsym(library, name) else { throw Self.missing(file) }
            return symbol
        }
        func function<F>(_ name: String) throws(CommonError) -> F {
            unsafeBitCast(try address(name), to: F.self)
        }
        easyInit = try function("curl_easy_init")
        easyCleanup = try function("curl_easy_cleanup")
        easyStrerror = try function("curl_easy_strerror")
        listAppend = try function("curl_slist_append")
        listFree = try function("curl_slist_free_all")
        multiInit = try function("curl_multi_init")
        multiCleanup = try function("curl_multi_cleanup")
        multiAdd = try function("curl_multi_add_handle")
        multiRemove = try function("curl_multi_remove_handle")
        multiPerform = try function("curl_multi_perform")
        multiPoll = try function("curl_multi_poll")
        multiWakeup = try function("curl_multi_wakeup")
        multiInfoRead = try function("curl_multi_info_read")
        setopt = try address("curl_easy_setopt")
        getinfo = try address("curl_easy_getinfo")
        let initialize: @convention(c) (Int) -> CURLcode = try function("curl_global_init")
        // Otherwise libcurl would write the keys of all TLS sessions to the file that this variable
        // names. An app that initializes libcurl before decides that itself.
        guard let entry = strdup("SSLKEYLOGFILE="), latchkey_environment_change(entry, nil) != 0
        else {
            throw Self.missing(file)
        }
        defer { _ = latchkey_environment_change(nil, entry) }
        guard initialize(Int(CURL_GLOBAL_DEFAULT)) == CURLE_OK else { throw Self.missing(file) }
    }

    private static func missing(_ file: String) -> CommonError {
        CommonError(
            code: .unavailable, reason: "the library \(file) could not be loaded",
            recovery: "Install the package libcurl4.",
            underlying: .init(
                layer: "http",
                text: dlerror().map { String(cString: $0) } ?? "curl_global_init failed"))
    }
}

/// A `CURL *` with its functions.
struct CurlHandle {
    /// libcurl did not accept an option, because it is older than 7.87 or was built without the
    /// option.
    struct RefusedOption: Error {
        let code: CURLcode
    }

    let library: CurlLibrary
    let pointer: CurlLibrary.Handle

    func set(_ option: CURLoption, _ value: Int) throws(RefusedOption) {
        try Self.check(latchkey_curl_set_number(library.setopt, pointer, option, value))
    }

    /// libcurl copies strings, except a request's body.
    func set(_ option: CURLoption, _ value: UnsafeRawPointer?) throws(RefusedOption) {
        try Self.check(latchkey_curl_set_pointer(library.setopt, pointer, option, value))
    }

    func set(_ option: CURLoption, _ value: @escaping curl_write_callback) throws(RefusedOption) {
        try Self.check(latchkey_curl_set_writer(library.setopt, pointer, option, value))
    }

    /// Before each connection: creates its socket.
    func setOpener(_ value: @escaping curl_opensocket_callback) throws(RefusedOption) {
        try Self.check(latchkey_curl_set_opener(library.setopt, pointer, value))
    }

    /// After each connection and before the first byte of the request.
    func setPrerequest(_ value: @escaping curl_prereq_callback) throws(RefusedOption) {
        try Self.check(latchkey_curl_set_prerequest(library.setopt, pointer, value))
    }

    func number(_ information: CURLINFO) -> Int {
        var value = 0
        return latchkey_curl_get_number(library.getinfo, pointer, information, &value) == CURLE_OK
            ? value : 0
    }

    private static func check(_ code: CURLcode) throws(RefusedOption) {
        guard code == CURLE_OK else { throw RefusedOption(code: code) }
    }
}
