import LatchkeyPresence

/// The introspection of the D-Bus object (D-Bus Specification, section "Standard Interfaces").
enum Introspection {
    /// The parents of the object, each with its child, so that introspection finds the object.
    private static let children = ["/": "org", "/org": "latchkey", "/org/latchkey": "Presence1"]

    /// - Returns: The answer to a call of a standard interface or on another object; nil for any
    ///   other call.
    static func answer(_ message: BusMessage) -> Bus.Reply? {
        if (message.interface, message.member) == ("org.freedesktop.DBus.Peer", "Ping") {
            return .success([])
        }
        if let child = children[message.path] { return answer(message, child: child) }
        guard message.path == PresenceWire.path else { return .failure(unknownObject) }
        return switch (message.interface, message.member) {
        case ("org.freedesktop.DBus.Introspectable", "Introspect"): .success([.string(document)])
        case ("org.freedesktop.DBus.Properties", "Get"):
            message.arguments.map(\.string) == [PresenceWire.interface, "Version"]
                ? .success([.variant(.uint32(PresenceWire.version))]) : .failure(unknownProperty)
        case ("org.freedesktop.DBus.Properties", "GetAll"):
            message.arguments.first?.string == PresenceWire.interface
                ? .success([.dictionary(["Version": .uint32(PresenceWire.version)])])
                : .success([.dictionary([:])])
        case ("org.freedesktop.DBus.Properties", _): .failure(unknownProperty)
        default: nil
        }
    }

    /// The answer of an object that only has a child.
    private static func answer(_ message: BusMessage, child: String) -> Bus.Reply {
        guard message.interface == "org.freedesktop.DBus.Introspectable",
            message.member == "Introspect"
        else {
            return .failure(
                BusError(
                    name: "org.freedesktop.DBus.Error.UnknownMethod",
                    message: "the object has no such method"))
        }
        return .success([.string("<node><node name=\"\(child)\"/></node>")])
    }

    private static let unknownObject = BusError(
        name: "org.freedesktop.DBus.Error.UnknownObject", message: "there is no such object")

    private static let unknownProperty = BusError(
        name: "org.freedesktop.DBus.Error.UnknownProperty",
        message: "there is no such property, or it is read-only")

    static let document = """
        <!DOCTYPE node PUBLIC "-//freedesktop//DTD D-BUS Object Introspection 1.0//EN"
         "http://www.freedesktop.org/standards/dbus/1.0/introspect.dtd">
        <node>
          <interface name="org.latchkey.Presence1">
            <!-- Whether the caller can be prompted for a finger: ready, not-available, not-enrolled or locked-out; why;
                 until when (POSIX seconds, or 0). -->
            <method name="State">
              <arg name="state" type="s" direction="out"/>
              <arg name="detail" type="s" direction="out"/>
              <arg name="until" type="t" direction="out"/>
            </method>
            <!-- The terms that the caller's keys must be bound to under a policy. -->
            <method name="Terms">
              <arg name="requirement" type="s" direction="in"/>
              <arg name="reuse_seconds" type="u" direction="in"/>
              <arg name="terms" type="a{sv}" direction="out"/>
            </method>
            <!-- Verifies a finger of the caller and approves one use (sign or unseal) of the key with this Name, in the
                 TPM session with this nonce. -->
            <method name="Approve">
              <arg name="use" type="s" direction="in"/>
              <arg name="key_name" type="ay" direction="in"/>
              <arg name="digest" type="ay" direction="in"/>
              <arg name="nonce_tpm" type="ay" direction="in"/>
              <arg name="requirement" type="s" direction="in"/>
              <arg name="reuse_seconds" type="u" direction="in"/>
              <arg name="reason" type="s" direction="in"/>
              <arg name="container" type="s" direction="in"/>
              <arg name="expiration" type="i" direction="out"/>
              <arg name="signature" type="ay" direction="out"/>
            </method>
            <!-- The same for up to three uses with one finger. Each further use is 99 bytes: 1 (mac), 2 (unseal) or 3 (a
                 signature whose digest follows), the key's Name, the nonce, and the message or zeros. -->
            <method name="ApproveSeveral">
              <arg name="use" type="s" direction="in"/>
              <arg name="key_name" type="ay" direction="in"/>
              <arg name="digest" type="ay" direction="in"/>
              <arg name="nonce_tpm" type="ay" direction="in"/>
              <arg name="requirement" type="s" direction="in"/>
              <arg name="reuse_seconds" type="u" direction="in"/>
              <arg name="reason" type="s" direction="in"/>
              <arg name="container" type="s" direction="in"/>
              <arg name="further" type="ay" direction="in"/>
              <arg name="expiration" type="i" direction="out"/>
              <arg name="signature" type="ay" direction="out"/>
              <arg name="further_signatures" type="ay" direction="out"/>
              <arg name="ticket" type="ay" direction="out"/>
            </method>
            <!-- Approves the signature whose digest was not known, once, within ten seconds. -->
            <method name="Complete">
              <arg name="ticket" type="ay" direction="in"/>
              <arg name="use" type="s" direction="in"/>
              <arg name="digest" type="ay" direction="in"/>
              <arg name="expiration" type="i" direction="out"/>
              <arg name="signature" type="ay" direction="out"/>
            </method>
            <!-- Verifies a finger of the caller, and signs that it did so for this nonce (32 bytes), reason and connection. -->
            <method name="Evaluate">
              <arg name="nonce" type="ay" direction="in"/>
              <arg name="reason" type="s" direction="in"/>
              <arg name="signature" type="ay" direction="out"/>
            </method>
            <!-- Cancels the caller's requests. -->
            <method name="Cancel"/>
            <!-- Allocates the caller's own PIN in the TPM. -->
            <method name="MakePIN">
              <arg name="index" type="ay" direction="out"/>
              <arg name="reset_policy" type="ay" direction="out"/>
              <arg name="initial_value" type="ay" direction="out"/>
            </method>
            <!-- Resets the count of a user's wrong PINs. Only for the administrator. -->
            <method name="ResetPIN">
              <arg name="uid" type="u" direction="in"/>
            </method>
            <!-- The users for whom the service keeps something, by user id in decimal, with the number of their places in
                 the TPM. Only for the administrator. -->
            <method name="Users">
              <arg name="users" type="a{sv}" direction="out"/>
            </method>
            <!-- Removes everything that the service and the TPM keep for a user: the user's keys that need the PIN end.
                 Only for the administrator. -->
            <method name="Forget">
              <arg name="uid" type="u" direction="in"/>
            </method>
            <!-- Lets the TPM state, signed by an attestation key of this TPM, that the service's approval key is in it. Only for
                 the administrator. -->
            <method name="CertifyKey">
              <arg name="attestation_key_public" type="ay" direction="in"/>
              <arg name="attestation_key_private" type="ay" direction="in"/>
              <arg name="challenge" type="ay" direction="in"/>
              <arg name="key" type="ay" direction="out"/>
              <arg name="statement" type="ay" direction="out"/>
              <arg name="signature" type="ay" direction="out"/>
            </method>
            <!-- Subscribes the caller to the prompts of its user. -->
            <method name="Subscribe"/>
            <!-- The progress: queued, waiting, retry, swipe-too-short, centre-finger, remove-finger, matched, not-matched
                 or withdrawn; and the requester and the reason. Sent to the caller and to subscribers. -->
            <signal name="Progress">
              <arg name="state" type="s"/>
              <arg name="prompt" type="s"/>
            </signal>
            <property name="Version" type="u" access="read"/>
          </interface>
          <interface name="org.freedesktop.DBus.Introspectable">
            <method name="Introspect">
              <arg name="xml_data" type="s" direction="out"/>
            </method>
          </interface>
          <interface name="org.freedesktop.DBus.Properties">
            <method name="Get">
              <arg name="interface_name" type="s" direction="in"/>
              <arg name="property_name" type="s" direction="in"/>
              <arg name="value" type="v" direction="out"/>
            </method>
            <method name="GetAll">
              <arg name="interface_name" type="s" direction="in"/>
              <arg name="properties" type="a{sv}" direction="out"/>
            </method>
          </interface>
        </node>

        """
}
