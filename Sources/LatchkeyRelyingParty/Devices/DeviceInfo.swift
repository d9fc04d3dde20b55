public import Latchkey

/// What a device says about itself: for people to recognise it by, never to decide by.
///
/// The shapes are those of the deployed server: an object `android`, else an object `ios`. There is no shape for Linux;
/// a Linux client fills one of these.
public struct DeviceInfo: Hashable, Sendable {
    /// What the device says of itself, in bounds and otherwise unread.
    public let json: JSONValue
    /// The most Unicode scalars that ``model`` and ``name`` have.
    public static let maximumTextLength = 100

    /// What kind of machine it is. Never empty, and fit to stand in a line of text: what is not to be seen, or would turn
    /// the text around it, is U+FFFD.
    public let model: String
    /// The name that its owner gave it, where there is one; fit for a line as ``model`` is.
    public let name: String?

    /// - Returns: nil when the JSON names no model.
    public init?(_ json: JSONValue) {
        guard let model = Self.model(json), !model.isEmpty else { return nil }
        self.json = json
        self.model = String(oneLine: model, limit: Self.maximumTextLength)
        name = Self.name(json).flatMap { $0.isEmpty ? nil : String(oneLine: $0, limit: Self.maximumTextLength) }
    }

    /// The model and the name: `Linux ThinkPad X1 (workbench)`.
    public var label: String {
        name.map { "\(model) (\($0))" } ?? model
    }

    private static func model(_ json: JSONValue) -> String? {
        if let android = json["android"], android.object != nil {
            let build = android["Build"]
            guard let manufacturer = build?["MANUFACTURER"]?.string, let model = build?["MODEL"]?.string else {
                return nil
            }
            return "\(manufacturer) \(model)"
        }
        let machine = json["ios"]?["uname"]?["machine"]?.string
        return machine == "x86_64" || machine == "arm64" ? "iOS Simulator" : machine
    }

    private static func name(_ json: JSONValue) -> String? {
        if let android = json["android"], android.object != nil {
            let settings = android["Settings"]
            return settings?["Global"]?["DEVICE_NAME"]?.string ?? settings?["Secure"]?["bluetooth_name"]?.string
        }
        return json["ios"]?["uname"]?["nodename"]?.string
    }
}
