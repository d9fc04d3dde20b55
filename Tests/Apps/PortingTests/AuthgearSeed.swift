import Latchkey
import LatchkeyLogin

// The code of “Intended usage” in Authgear's SDK document, in Swift: `await` becomes `try await`,
// `null` becomes `nil`, and `authorize({ ... })` has its default options. The rest of this file is
// the app's own.

/// An app that follows the document.
@MainActor final class AuthgearApp {
    private let authgear: Container
    private let userHasAgreedToUseBiometric = true
    /// The screens that were shown.
    private(set) var shown: [String] = []

    init(_ authgear: Container) { self.authgear = authgear }

    // swift-format-ignore
    func onClickLogin() async throws {
// Authenticate the user via non-biometric means.
try await authgear.authorize()


// Check if the device supports biometric authentication.
let available = await authgear.isBiometricAvailable()
if (available) {
  // Show a screen to ask the user if they want to enable biometric authentication.
  shown.append("use biometric?")
  try await authgear.enabledBiometric()
}
    }

    // swift-format-ignore
    func onSessionExpired() async throws {
// When the session has expired.
let userID = try await authgear.getLastUserID()
let enabled = try await authgear.isBiometricEnabled()

if (userID != nil && enabled) {
  // The user MAY have biometric set up previously.
  // Show a screen to ask if they want to authenticate with biometric.
  shown.append("log in with biometric?")
  if (userHasAgreedToUseBiometric) {
    do {
      try await authgear.authenticateBiometric()
      shown.append("main")
    } catch {
      // Inspect the error to see if it is identity not found.
      // Fallback to non-biometric login screen.
      // This is necessary because the biometric identity can be removed from the settings page.
      shown.append((error as? LoginError)?.code == .identityNotFound ? "login: identity not found" : "login")
    }
  }
}
    }

    // When the user want to "logout".
    // swift-format-ignore
    func onClickLogout() async throws {
  let userID = try await authgear.getLastUserID()
  let enabled = try await authgear.isBiometricEnabled()
  if (userID != nil && enabled) {
    // Prompt the user we have to disable biometric first.
    // So they will not be scared by the biometric authentication UI.
    shown.append("biometric will be disabled")
  }
  try await authgear.logout()
    }
}
