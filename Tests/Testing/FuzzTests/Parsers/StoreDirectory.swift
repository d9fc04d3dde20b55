import FoundationEssentials
import Glibc

@testable import Latchkey
@testable import LatchkeyCredentials

/// A store's directory with a database file of arbitrary content.
final class StoreDirectory: Sendable {
    private let path: String

    init?(holding file: [UInt8]) {
        // In a memory file system if there is one, since SQLite waits for the disk at each change.
        let parent = access("/dev/shm", W_OK) == 0 ? "/dev/shm" : "/tmp"
        var template = Array("\(parent)/latchkey-XXXXXX".utf8CString)
        guard let made = mkdtemp(&template) else { return nil }
        path = String(cString: made)
        guard mkdir("\(path)/default", 0o700) == 0 else { return }
        let descriptor = open("\(path)/default/latchkey.sqlite", O_WRONLY | O_CREAT, 0o600)
        guard descriptor >= 0 else { return }
        _ = write(descriptor, file, file.count)
        close(descriptor)
    }

    deinit { try? FileManager.default.removeItem(atPath: path) }

    /// Opens the store and calls everything that does not prompt.
    func use() async {
        guard let store = try? await RecordStore(directory: path) else { return }
        _ = try? await store.anchor("tpm/storage-root")
        let names = (try? await store.containerNames()) ?? []
        for name in ["default"] + names.prefix(4) {
            guard
                let container = try? RecordContainer(
                    name: name, store: store, keystore: OpenKeystore())
            else {
                continue
            }
            await use(container)
        }
    }

    private func use(_ container: RecordContainer) async {
        let prompt = PromptContext(reason: "fuzz")
        let kind = "note"
        let keys = (try? await container.keys()) ?? []
        let listed = (try? await container.list(kind)) ?? []
        _ = try? container.idsNow(kind)
        _ = try? container.scanNow(kind) { _ in true }
        _ = try? container.findNow(
            kind, where: .and(.hasAttribute("tag"), .not(.attribute("a", is: "b"))))
        try? await container.open(.device, for: prompt, authorizedBy: NobodyPresent())
        for record in (keys + listed).prefix(8) {
            _ = try? await container.read(record.id, for: prompt)
        }
        let note = Record(id: "fuzz", kind: kind, attributes: ["tag": "a"])
        _ = try? await container.apply(
            [.put(note, payload: SecretBytes([1]), ifGeneration: nil)], for: prompt)
        _ = try? await container.apply([.delete("note", ifGeneration: nil)], for: prompt)
        _ = try? await container.read("fuzz", for: prompt)
    }
}
