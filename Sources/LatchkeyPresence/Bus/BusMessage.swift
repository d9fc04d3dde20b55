/// A signal or a method call as it came in. The bus itself vouches for the sender.
package struct BusMessage: Sendable {
    /// The sender's unique name, for example `:1.42`.
    package let sender: String
    /// The object that a signal comes from, or that a method is called on.
    package let path: String
    package let interface: String
    package let member: String
    package let arguments: [BusValue]
    /// What a method call is answered by; see ``Bus/reply(to:_:)``.
    package let ticket: UInt64?
}
