import Foundation
import Latchkey
import Testing

struct AccessPolicyTests {
    @Test func `bounds are checked when a policy is created and when it is decoded`() throws {
        #expect(AccessPolicy(.pin, reuseSeconds: 300) != nil)
        #expect(AccessPolicy(.pin, reuseSeconds: 301) == nil)
        #expect(AccessPolicy(.pin, reuseSeconds: -1) == nil)
        #expect(AccessPolicy(.pin, attemptLimit: 0) == nil)
        #expect(AccessPolicy(.pin, attemptLimit: 33) == nil)
        #expect(AccessPolicy(.none, reuseSeconds: 1) == nil)
        for json in [
            #"{"requirement":"pin","reuseSeconds":301}"#,
            #"{"requirement":"none","reuseSeconds":1}"#,
            #"{"requirement":"whoever"}"#, #"{}"#,
        ] {
            #expect(throws: DecodingError.self) {
                try JSONDecoder().decode(AccessPolicy.self, from: Data(json.utf8))
            }
        }
    }

    @Test(arguments: AccessPolicy.Requirement.allCases)
    func `a policy survives being stored`(requirement: AccessPolicy.Requirement) throws {
        let policy = try #require(AccessPolicy(requirement))
        #expect(
            try JSONDecoder().decode(AccessPolicy.self, from: JSONEncoder().encode(policy))
                == policy)
    }
}
