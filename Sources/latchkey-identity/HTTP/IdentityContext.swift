import Hummingbird
import Logging
import NIOCore

/// What the server knows about a request besides the request.
struct IdentityContext: RequestContext {
    var coreContext: CoreRequestContextStorage
    /// The client's address, without its port: the peer's, unless ``ClientAddressMiddleware`` knows better.
    var address: String
    /// The connection that the request came on.
    let channel: any Channel
    /// What limits per address count by.
    var network: String { IPAddress(address)?.network ?? address }

    /// The most that any request may send.
    var maxUploadSize: Int { 65_536 }

    init(source: ApplicationRequestContextSource) {
        coreContext = CoreRequestContextStorage(source: source)
        channel = source.channel
        address = source.channel.remoteAddress?.ipAddress.flatMap(IPAddress.init)?.description ?? "unknown"
    }
}
