// The browser, the login options and the device's description are part of this module's API. They
// are declared in LatchkeyOAuth, below all facades.
@_exported public import LatchkeyOAuth
