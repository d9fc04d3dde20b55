// The browser, the options of a login and the description of a device are part of this module's API. All facades share
// them, so they are in LatchkeyOAuth.
@_exported public import LatchkeyOAuth
