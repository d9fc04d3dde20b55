public import ArgumentParser
public import VirtualSmartCard

extension ManagementKeyAlgorithm: ExpressibleByArgument {
    public init?(argument: String) {
        switch argument {
        case "tdes": self = .tripleDES
        case "aes128": self = .aes128
        case "aes192": self = .aes192
        case "aes256": self = .aes256
        default: return nil
        }
    }

    public static var allValueStrings: [String] { ["tdes", "aes128", "aes192", "aes256"] }
}

extension Firmware: ExpressibleByArgument {}

extension TouchMode: ExpressibleByArgument {}
