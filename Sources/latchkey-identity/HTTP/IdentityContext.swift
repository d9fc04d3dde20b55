import Hummingbird
import Logging
import NIOCore

/// What the server knows about a request besides the request.
struct IdentityContext: RequestContext {
    var coreContext: CoreRequestContextStorage
    /// The address of the peer, without its port.
    let address: String

    /// The most that any request may send.
    var maxUploadSize: Int { 65_536 }

    init(source: ApplicationRequestContextSource) {
        coreContext = CoreRequestContextStorage(source: source)
        address = source.channel.remoteAddress?.ipAddress ?? "unknown"
    }
}
