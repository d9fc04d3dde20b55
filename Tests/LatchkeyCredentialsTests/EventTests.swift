import Foundation
import Latchkey
import LatchkeyCredentials
import LatchkeyTesting
import Synchronization
import Testing

/// What is told, in which order, and that it is durable by then.
@Suite(.softwareTPM)
struct EventTests {
    @Test func `each change is told once, after it is stored`() async throws {
        let scene = try Scene()
        let store = try await scene.start()
        let log = Log(store)
        let first = try await store.store(token: scene.token("t1"))
        let second = try await store.store(token: scene.token("t2"))
        try await store.setDefault(second)
        try await store.setDefault(second)
        try await second.setTags(["a": "1"])
        try await first.refresh()
        await #expect(throws: conflict) { try await store.store(token: scene.token("t2")) }
        try await second.remove()
        let entries = await log.entries(8)
        #expect(
            entries == [
                "created t1", "default t1", "created t2", "default t2", "tags t2", "refreshed t1", "removed t2",
                "default none",
            ])
        #expect(log.names == entries.filter { !$0.hasPrefix("tags") && !$0.hasSuffix("none") })
    }

    @Test func `a refresh that fails is told with its reason`() async throws {
        let scene = try Scene()
        let store = try await scene.start()
        let log = Log(store)
        let credential = try await store.store(token: scene.token("t1", refresh: nil))
        await #expect(throws: missingToken) { try await credential.refresh() }
        #expect(await log.entries(3) == ["created t1", "default t1", "failed t1 missingToken"])
        #expect(log.names == ["created t1", "default t1", "failed t1", "failed t1"])
    }
}

/// What a store tells, as both of its ways tell it.
private final class Log: Sendable {
    private let posted = Mutex<[String]>([])
    private let stream: AsyncStream<CredentialEvent>

    init(_ store: CredentialStore) {
        stream = store.events
        let names: [(Notification.Name, String)] = [
            (.defaultCredentialChanged, "default"), (.credentialCreated, "created"), (.credentialRemoved, "removed"),
            (.tokenRefreshed, "refreshed"), (.tokenRefreshFailed, "failed"), (.credentialRefreshFailed, "failed"),
        ]
        for (name, word) in names {
            _ = NotificationCenter.default.addObserver(forName: name, object: nil, queue: nil) {
                [weak self] notification in
                // Other tests have stores of their own; whose default is nobody can't be told.
                guard let credential = notification.object as? Credential, credential.store === store else { return }
                self?.posted.withLock { $0.append("\(word) \(credential.id)") }
            }
        }
    }

    var names: [String] { posted.withLock { $0 } }

    /// The first events, which must be there already.
    func entries(_ count: Int) async -> [String] {
        var entries: [String] = []
        for await event in stream.prefix(count) { entries.append(Self.word(event)) }
        return entries
    }

    private static func word(_ event: CredentialEvent) -> String {
        switch event {
        case .created(let credential): "created \(credential.id)"
        case .removed(let credential): "removed \(credential.id)"
        case .defaultChanged(let credential): "default \(credential?.id ?? "none")"
        case .tagsChanged(let credential): "tags \(credential.id)"
        case .refreshed(let credential): "refreshed \(credential.id)"
        case .refreshFailed(let credential, let error):
            "failed \(credential.id) \((error as? CredentialError)?.code.description ?? "?")"
        case .failed(let error): "failed \(error)"
        case .unreadable: "unreadable"
        }
    }
}
