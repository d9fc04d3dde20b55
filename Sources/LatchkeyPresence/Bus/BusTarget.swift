/// A method, or where a method is.
package struct BusTarget: Hashable, Sendable {
    package var destination: String
    package var path: String
    package var interface: String
    package var member: String

    package init(_ destination: String, _ path: String, _ interface: String, _ member: String) {
        self.destination = destination
        self.path = path
        self.interface = interface
        self.member = member
    }
}
