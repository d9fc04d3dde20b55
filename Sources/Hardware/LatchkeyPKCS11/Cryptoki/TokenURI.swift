internal import CPKCS11
package import FoundationEssentials
internal import Glibc
internal import Latchkey
internal import Synchronization

/// A PKCS#11 URI (RFC 7512): names a token, and with `id` or `object` a key on it.
///
/// p11-kit parses and matches it. A missing attribute matches everything. A URI with `pin-value` is
/// refused, because other processes can read it; `pin-source` is refused, because it is not
/// supported.
public struct TokenURI: Hashable, Sendable {
    /// The URI in p11-kit's spelling.
    package let string: String
    /// The texts of the token; nil for any.
    let labelText, manufacturerText, modelText, serialText: TokenText?
    /// The token's label (`token`), or nil for any.
    public var label: String? { labelText?.text }
    /// `id`: the key's `CKA_ID`, if the URI has it.
    package let keyID: Data?
    /// `object`: the key's `CKA_LABEL`, if the URI has it.
    package let keyLabel: String?
    /// `module-path`: the module's file, or its name in p11-kit's module directory.
    package let modulePath: String?
    /// `module-name`: the name of a module that p11-kit configures.
    package let moduleName: String?
    /// Whether it names a module; otherwise it means all modules that p11-kit configures.
    package var namesModule: Bool { modulePath != nil || moduleName != nil }

    /// - Throws: ``CryptokiError`` of kind `invalidURI`. Its text never contains the URI, which may
    ///   contain a secret.
    package init(_ text: String) throws(CryptokiError) {
        let parsed = try ParsedURI(Self.withModuleInQuery(text))
        if let reason = parsed.refusal { throw CryptokiError(.invalidURI, reason: reason) }
        try self.init(parsed)
    }

    /// The URI of a token and its module.
    init(naming token: TokenInformation, modulePath: String) throws(CryptokiError) {
        try self.init(ParsedURI(token: token, modulePath: modulePath))
    }

    private init(_ parsed: ParsedURI) throws(CryptokiError) {
        string = try parsed.formatted()
        labelText = parsed.tokenText(\.label)
        manufacturerText = parsed.tokenText(\.manufacturerID)
        modelText = parsed.tokenText(\.model)
        serialText = parsed.tokenText(\.serialNumber)
        keyID = parsed.attribute(CKA_ID).map { Data($0) }
        keyLabel = parsed.attribute(CKA_LABEL).map { String(decoding: $0, as: UTF8.self) }
        modulePath = parsed.modulePath
        moduleName = parsed.moduleName
    }

    /// Whether the URI names a key.
    package var namesKey: Bool { keyID != nil || keyLabel != nil }

    /// The files of the modules that the URI may mean, each once, without symbolic links.
    ///
    /// - Throws: `module(.missing)` for a `module-name` that p11-kit does not configure.
    func modulePaths() throws(CryptokiError) -> [String] {
        if let modulePath { return Module.files([modulePath]) }
        let configured = ConfiguredModules().entries
        guard let moduleName else { return Module.files(configured.map(\.path)) }
        let named = configured.filter { $0.name == moduleName }
        guard !named.isEmpty else {
            throw CryptokiError(
                .module(.missing),
                reason: "p11-kit configures no module with the name \(moduleName)")
        }
        return Module.files(named.map(\.path))
    }

    /// Whether the URI matches a token. Ignores module and key.
    package func matches(_ token: TokenInformation) -> Bool {
        let texts = token.texts
        return [
            (labelText, texts.label), (manufacturerText, texts.manufacturer),
            (modelText, texts.model), (serialText, texts.serial),
        ].allSatisfy { $0 == nil || $0 == $1 }
    }

    /// Whether the URI may mean a token that was found before. Ignores the key. A `module-name` may
    /// be the name of every module, and so may a module's file that cannot be read now.
    ///
    /// - Parameters:
    ///   - token: The URI that names only the token.
    ///   - path: The file of its module, without symbolic links.
    func mayMean(_ token: TokenURI, in path: String) -> Bool {
        if let modulePath, let own = try? Module.resolve(modulePath), own != path { return false }
        return [
            (labelText, token.labelText), (manufacturerText, token.manufacturerText),
            (modelText, token.modelText), (serialText, token.serialText),
        ].allSatisfy { $0 == nil || $1 == nil || $0 == $1 }
    }
}

extension TokenURI: CustomStringConvertible {
    /// The URI in p11-kit's spelling.
    public var description: String { string }
}

extension TokenURI {
    /// Moves the module's attributes to the query, as RFC 7512 section 2.4 requires. Many users
    /// write them among the token's attributes, which p11-kit refuses.
    static func withModuleInQuery(_ text: String) -> String {
        let parts = text.split(separator: "?", maxSplits: 1, omittingEmptySubsequences: false)
        guard let path = parts.first, path.hasPrefix("pkcs11:") else { return text }
        let attributes = path.dropFirst("pkcs11:".count).split(separator: ";")
        let names = ["module-path=", "module-name="]
        let ofModule = attributes.filter { attribute in names.contains { attribute.hasPrefix($0) } }
        guard !ofModule.isEmpty else { return text }
        let ofToken = attributes.filter { attribute in !names.contains { attribute.hasPrefix($0) } }
        let query = ofModule + parts.dropFirst()
        return "pkcs11:\(ofToken.joined(separator: ";"))?\(query.joined(separator: "&"))"
    }
}

/// p11-kit's representation of a PKCS#11 URI.
final class ParsedURI {
    private let uri: OpaquePointer

    /// - Throws: `invalidURI`, without the text.
    init(_ text: String) throws(CryptokiError) {
        uri = try Self.make()
        let status = p11_kit_uri_parse(text, P11_KIT_URI_FOR_ANY, uri)
        guard status == P11_KIT_URI_OK.rawValue else {
            throw CryptokiError(
                .invalidURI,
                reason: "the text is not a PKCS#11 URI (RFC 7512): \(Self.message(status))")
        }
    }

    init(token: TokenInformation, modulePath: String) throws(CryptokiError) {
        uri = try Self.make()
        if let info = p11_kit_uri_get_token_info(uri) {
            info.pointee = token.cryptokiInfo
        }
        p11_kit_uri_set_module_path(uri, modulePath)
    }

    deinit { p11_kit_uri_free(uri) }

    private static func make() throws(CryptokiError) -> OpaquePointer {
        guard let uri = p11_kit_uri_new() else {
            throw CryptokiError(.invalidURI, reason: "out of memory")
        }
        return uri
    }

    private static func message(_ status: Int32) -> String {
        p11_kit_uri_message(status).map { String(cString: $0) } ?? "code \(status)"
    }

    /// Why the URI is refused; nil if it is not.
    var refusal: String? {
        if p11_kit_uri_get_pin_value(uri) != nil {
            return "the URI contains a PIN (pin-value), which other processes can read"
        }
        if p11_kit_uri_get_pin_source(uri) != nil {
            return "the URI names a source for the PIN (pin-source), which is not supported"
        }
        if p11_kit_uri_any_unrecognized(uri) != 0 {
            return
                "the URI has an attribute that p11-kit does not know (it knows token, manufacturer, model, serial, "
                + "id, object, and after a question mark module-path and module-name)"
        }
        if namesSlot {
            return "the URI names a slot (slot-*), which can hold different tokens: name the token"
        }
        guard namesLibrary else { return nil }
        return "the URI describes a module (library-*), which is not supported: use module-path"
    }

    var modulePath: String? { p11_kit_uri_get_module_path(uri).map { String(cString: $0) } }
    var moduleName: String? { p11_kit_uri_get_module_name(uri).map { String(cString: $0) } }

    /// Whether it has `slot-id`, `slot-description` or `slot-manufacturer`.
    private var namesSlot: Bool {
        let info = p11_kit_uri_get_slot_info(uri)?.pointee
        return p11_kit_uri_get_slot_id(uri) != CK_SLOT_ID.max
            || info?.slotDescription.0 ?? 0 != 0 || info?.manufacturerID.0 ?? 0 != 0
    }

    /// Whether it has `library-description`, `library-manufacturer` or `library-version`.
    private var namesLibrary: Bool {
        guard let info = p11_kit_uri_get_module_info(uri)?.pointee else { return false }
        // 255 is p11-kit's value for a missing version.
        let hasVersion = info.libraryVersion.major != .max || info.libraryVersion.minor != .max
        return info.libraryDescription.0 != 0 || info.manufacturerID.0 != 0 || hasVersion
    }

    func formatted() throws(CryptokiError) -> String {
        var text: UnsafeMutablePointer<CChar>?
        let status = p11_kit_uri_format(uri, P11_KIT_URI_FOR_ANY, &text)
        guard status == P11_KIT_URI_OK.rawValue, let text else {
            throw CryptokiError(
                .invalidURI, reason: "p11-kit can't format the URI: \(Self.message(status))")
        }
        defer { free(text) }
        return String(cString: text)
    }

    /// A text attribute of the token; nil if the URI does not have it (its first byte is then 0).
    func tokenText<T>(_ field: KeyPath<CK_TOKEN_INFO, T>) -> TokenText? {
        guard let info = p11_kit_uri_get_token_info(uri) else { return nil }
        return withUnsafeBytes(of: info.pointee[keyPath: field]) { bytes in
            bytes.first == 0 ? nil : TokenText(bytes)
        }
    }

    func attribute(_ type: UInt) -> [UInt8]? {
        guard let attribute = p11_kit_uri_get_attribute(uri, type)?.pointee else { return nil }
        return Array(
            UnsafeRawBufferPointer(
                start: attribute.pValue, count: Int(clamping: attribute.ulValueLen)))
    }
}

extension Token {
    /// Finds the one token that matches a URI, in the module that the URI names, or in all modules
    /// that p11-kit configures.
    ///
    /// - Parameters:
    ///   - isExpected: Whether a matching token is the one that the caller expects; another
    ///   one is returned too, but only after a module that may show an old state was restarted.
    ///   - isChosen: Whether a token is the one to choose if several match.
    /// - Throws: ``CryptokiError``; `tokenAbsent`, `noReaders`, `tokenAmbiguous` (the reason names
    ///   the tokens with their serial numbers), `module`, `timedOut`, `unresponsive`, `cancelled`.
    static func find(
        _ uri: TokenURI, options: TokenOptions = TokenOptions(),
        expecting isExpected: @escaping TokenCondition = { _ in true },
        choosing isChosen: (Token) -> Bool = { _ in false }
    ) async throws(CryptokiError) -> Token {
        let paths = try uri.modulePaths()
        var tokens: [Token] = []
        let blank = Mutex<TokenInformation?>(nil)
        var errors: [(path: String, error: CryptokiError)] = []
        for path in paths {
            do throws(CryptokiError) {
                let module = try await Module.load(path, options: options)
                let fits = { @Sendable (information: TokenInformation) in
                    guard uri.matches(information) else { return false }
                    guard !information.isInitialized else { return true }
                    blank.withLock { $0 = information }
                    return false
                }
                tokens += try await module.tokens(
                    options: options, where: fits, expecting: isExpected)
            } catch {
                errors.append((path, error))
            }
        }
        if tokens.count > 1, tokens.contains(where: isChosen) { tokens.removeAll { !isChosen($0) } }
        guard tokens.count <= 1 else {
            throw .ambiguous(tokens.map { ($0.information, $0.module.path) })
        }
        if let token = tokens.first { return token }
        if let blank = blank.withLock(\.self) {
            guard !blank.isNSS else { throw .filesOfNSS }
            throw CryptokiError(
                .uninitialized,
                reason: "the token \(blank.manufacturer) \(blank.model) is not initialized")
        }
        // With several modules the failures may have nothing to do with the token.
        if paths.count == 1, let (_, error) = errors.first { throw error }
        let causes = errors.map { "; the module \($0.path) cannot be used: \($0.error)" }.joined()
        throw CryptokiError(.tokenAbsent, reason: "no token matches \(uri)\(causes)")
    }
}

/// The information of the token in a slot, or the error.
typealias TokenInSlot = Result<TokenInformation, CryptokiError>

/// A condition for a token.
typealias TokenCondition = @Sendable (TokenInformation) -> Bool

extension Module {
    /// Reads the current tokens, and repeats that as ``RecoveryPolicy`` decides.
    ///
    /// - Parameters:
    ///   - fits: Whether the caller looks for a token; nil to list all.
    ///   - isExpected: Whether a token that fits is the one that the caller expects. A module that
    ///     may show an old state is restarted if it shows another one.
    /// - Throws: `noReaders` if there is no slot; the error after the last step.
    func tokensInSlots(
        where fits: TokenCondition? = nil,
        expecting isExpected: @escaping TokenCondition = { _ in true }
    ) async throws(CryptokiError) -> [TokenInSlot] {
        do {
            return try await thread.run { [self] () throws(CryptokiError) in
                try readTokens(where: fits, expecting: isExpected)
            }
        } catch {
            throw await recognizingRemoval(error)
        }
    }

    private func readTokens(where fits: TokenCondition?, expecting isExpected: TokenCondition)
        throws(CryptokiError) -> [TokenInSlot]
    {
        let recovery = RecoveryPolicy(searching: self)
        let caller = caller(on: thread, deadlines: options.deadlines)
        var known = epoch
        var showsOthers = false
        return try recovery.repeating(on: thread) { () throws(CryptokiError) in
            known = epoch
            if needsInitialization { try reinitialize(after: known, by: caller) }
            let reports = try read(by: caller, isLastTry: recovery.hasRestarted)
            showsOthers = !reports.isEmpty
            guard recovery.mayBeStale, !isPlausible(reports, fits, isExpected) else {
                return reports
            }
            throw CryptokiError(.stale, reason: "the module may show an old state of its tokens")
        } after: { (_, error) throws(CryptokiError) in
            // The module may have read a card while it was removed.
            if error.kind == .stale, showsOthers, profile.cachesStaleState {
                usleep(options.settlingTime)
            }
            try reinitialize(after: error.kind == .stale ? epoch : known, by: caller)
        }
    }

    /// Whether a module that may show an old state can be believed.
    ///
    /// ykcs11 shows no token after pcscd was restarted, and one without a serial number if the card
    /// was removed while it was read. SoftHSM2 skips a token that another process writes to. An
    /// isolated OpenSC still shows the certificates of a card that was replaced by another one.
    private func isPlausible(
        _ reports: [TokenInSlot], _ fits: TokenCondition?, _ isExpected: TokenCondition
    ) -> Bool {
        let all = reports.compactMap { try? $0.get() }
        if profile.failsDuringWrites {
            return fits.map { all.filter(\.isInitialized).contains(where: $0) } ?? true
        }
        if profile.cachesStaleState {
            return !all.isEmpty
                && all.allSatisfy { information in
                    (try? information.checkWasRead(by: profile, withSerial: true)) != nil
                        && (fits?(information) != true || isExpected(information))
                }
        }
        return !replaceSeen(Set(all.map { TokenIdentity($0, among: all, in: profile) }))
    }

    private func read(by caller: Caller, isLastTry: Bool) throws(CryptokiError) -> [TokenInSlot] {
        let slots: [UInt]
        do throws(CryptokiError) {
            slots = try caller.slots(withToken: true)
        } catch {
            // Yubico's module answers this if pcscd does not run.
            guard isLastTry, profile.family == .ykcs11, error.returnValue == .deviceError else {
                throw error
            }
            throw CryptokiError(
                .noReaders, function: error.function,
                reason: "the module cannot list the readers")
        }
        if slots.isEmpty, try caller.slots(withToken: false).isEmpty {
            throw CryptokiError(
                .noReaders, function: "C_GetSlotList",
                reason: profile.hasCards
                    ? "the module sees no reader" : "the module shows no slot for a token",
                recovery: profile.hasCards ? nil : Recovery(CryptokiError.connectAnyToken))
        }
        return slots.map { slot in
            Result { () throws(CryptokiError) in try caller.tokenInformation(slot: slot) }
        }
    }

    /// The initialized tokens of this module that match.
    func tokens(
        options: TokenOptions, where fits: @escaping TokenCondition,
        expecting isExpected: @escaping TokenCondition = { _ in true }
    ) async throws(CryptokiError) -> [Token] {
        let reports = try await tokensInSlots(where: fits, expecting: isExpected)
        let all = reports.compactMap { try? $0.get() }
        var tokens: [Token] = []
        for information in all where fits(information) && information.isInitialized {
            let identity = TokenIdentity(information, among: all, in: profile)
            tokens.append(try token(information, identity, options: options))
        }
        return tokens
    }
}

extension TokenInformation {
    fileprivate var isInitialized: Bool { flags.contains(.initialized) }
}
