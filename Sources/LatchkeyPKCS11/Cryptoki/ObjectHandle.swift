/// `CK_OBJECT_HANDLE`: means something in the session that it came from, and nowhere else.
struct ObjectHandle: RawRepresentable, Hashable, Sendable {
    let rawValue: UInt
}
