// The browser, the options of a login and the device's description are part of this module's API. They live in a module
// of their own, below all facades; who imports this one has them.
@_exported public import LatchkeyOAuth
