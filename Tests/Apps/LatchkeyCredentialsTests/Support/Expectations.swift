import GRDB
import Latchkey
import LatchkeyCredentials
import LatchkeySimulators
import RawDatabase
import Testing

// Errors compare by their code, so one value of each code is all that an expectation needs.
func credentials(_ code: CredentialError.Code) -> CredentialError {
    CredentialError(operation: "", code: code, reason: "", recovery: "")
}

func keystore(_ code: KeystoreError.Code) -> KeystoreError {
    KeystoreError(operation: "", code: code, reason: "", recovery: "")
}

/// Changes the store's file, like an attacker who can write it.
func tamper(_ bench: Bench, _ sql: String, _ arguments: StatementArguments = [], rows: Int = 1)
    throws
{
    let database = try DatabaseQueue.raw(at: bench.databasePath)
    try database.write { database in
        try database.execute(sql: sql, arguments: arguments)
        #expect(database.changesCount == rows)
    }
}

/// What happened, in few words.
func name(_ event: CredentialEvent) -> String {
    switch event {
    case .defaultChanged(let credential): "default \(credential?.id ?? "none")"
    case .created(let credential): "created \(credential.id)"
    case .tagsChanged(let credential): "tagged \(credential.id)"
    case .removed(let credential): "removed \(credential.id)"
    case .refreshed(let credential): "refreshed \(credential.id)"
    case .refreshFailed(let credential, let error):
        "failed \(credential.id) \((error as? CredentialError)?.code.description ?? "\(error)")"
    case .claimsNotCopied(let credential, let names): "not copied \(credential.id) \(names)"
    case .unreadable: "unreadable"
    case .failed: "failed"
    }
}

/// Collects the names of events until there are `count` names.
func names(of events: AsyncStream<CredentialEvent>, count: Int) async -> [String] {
    let collector = Task {
        var names: [String] = []
        for await event in events {
            names.append(name(event))
            if names.count == count { break }
        }
        return names
    }
    let watchdog = Task {
        try await Task.sleep(for: hangLimit)
        collector.cancel()
    }
    defer { watchdog.cancel() }
    return await collector.value
}
