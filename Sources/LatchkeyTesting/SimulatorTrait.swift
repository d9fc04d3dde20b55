internal import Latchkey
public import Testing

/// A trait that gives each test a simulator of its own. On a suite it applies to every test in it.
public protocol SimulatorTrait: TestTrait, SuiteTrait, TestScoping {}

extension SimulatorTrait {
    public var isRecursive: Bool { true }

    /// Each case of a test has its own; a suite has none.
    public func scopeProvider(for test: Test, testCase: Test.Case?) -> Self? {
        testCase == nil ? nil : self
    }

    /// The simulator of the running test.
    ///
    /// - Parameters:
    ///   - scoped: What the task has.
    ///   - name: What it is called.
    ///   - trait: The trait that gives a test one, as it is written.
    static func current<Simulator>(_ scoped: Simulator?, _ name: String, from trait: String) throws -> Simulator {
        guard let scoped else {
            throw KeystoreError(
                operation: "find the test's \(name)", code: .wrongState, reason: "the test has none",
                recovery: "Give the test or its suite the trait \(trait).")
        }
        return scoped
    }
}
