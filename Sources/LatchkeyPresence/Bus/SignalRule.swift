/// Which signals are heard.
///
/// The bus delivers to a client whatever is addressed to it, from whomever, with whatever path, interface and member the
/// sender likes: a match rule adds to that and keeps nothing away. So each signal is held against the rule here.
package struct SignalRule: Hashable, Sendable {
    package enum Sender: Hashable, Sendable {
        /// The message bus itself, whose name the bus gives to nobody else.
        case bus
        /// Whoever owned a name when the signal was sent.
        case owner(of: String)
    }

    package let sender: Sender
    /// Nil for any object of the sender.
    package let path: String?
    package let interface: String
    package let member: String
    /// The first argument; nil for any.
    package let argument: String?

    package init(
        from sender: Sender, path: String? = nil, interface: String, member: String, argument: String? = nil
    ) {
        self.sender = sender
        self.path = path
        self.interface = interface
        self.member = member
        self.argument = argument
    }

    /// `NameOwnerChanged(name, old owner, new owner)` of one name, or of all (D-Bus Specification, section "Message Bus
    /// Messages").
    package static func ownerChanges(of name: String? = nil) -> SignalRule {
        SignalRule(
            from: .bus, path: "/org/freedesktop/DBus", interface: "org.freedesktop.DBus", member: "NameOwnerChanged",
            argument: name)
    }

    /// What the bus is asked to send.
    var match: String {
        let name =
            switch sender {
            case .bus: "org.freedesktop.DBus"
            case .owner(let name): name
            }
        return "type='signal',sender='\(name)',interface='\(interface)',member='\(member)'"
            + (path.map { ",path='\($0)'" } ?? "") + (argument.map { ",arg0='\($0)'" } ?? "")
    }

    /// Whether it is one of those that are meant.
    ///
    /// - Parameter owner: The unique name of the owner of a name, if it has one.
    func accepts(_ signal: BusMessage, owner: (String) -> String?) -> Bool {
        let expected: String? =
            switch sender {
            case .bus: "org.freedesktop.DBus"
            case .owner(let name): owner(name)
            }
        return signal.sender == expected && signal.interface == interface && signal.member == member
            && (path == nil || signal.path == path)
            && (argument == nil || signal.arguments.first?.string == argument)
    }
}
