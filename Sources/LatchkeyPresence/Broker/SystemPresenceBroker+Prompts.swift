public import Latchkey

extension SystemPresenceBroker {
    /// Everything that the broker tells this user, whichever program asks: for a desktop that shows what a program would
    /// hide.
    ///
    /// It goes on with a service that is started anew. The stream ends when the broker's bus does. Let go of it to hear no more.
    public func prompts() async throws(KeystoreError) -> AsyncStream<PresencePrompt> {
        let operation = "watch the presence broker's prompts"
        let (prompts, sink) = AsyncStream.makeStream(of: PresencePrompt.self)
        do throws(BusError) {
            let bus = try await Bus.system(at: busAddress) { sink.finish() }
            _ = try await bus.subscribe(PresenceWire.progressRule) { signal in
                if let prompt = PresenceWire.prompt(signal.arguments) { sink.yield(prompt) }
            }
            // A service that was started anew knows nobody who watches.
            _ = try await bus.subscribe(.ownerChanges(of: PresenceWire.name)) { [weak bus] change in
                guard change.arguments.last?.string?.isEmpty == false, let bus else { return }
                Task { await bus.send(PresenceWire.target(.subscribe)) { _ in } }
            }
            _ = try await bus.call(PresenceWire.target(.subscribe))
            // The connection lasts as long as somebody listens.
            sink.onTermination = { _ in withExtendedLifetime(bus) {} }
        } catch {
            throw PresenceWire.keystoreError(error, operation)
        }
        return prompts
    }
}
