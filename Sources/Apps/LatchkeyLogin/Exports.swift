// Types of this module's API that all facades share, from the modules below them: JSON values; the
// browser, the options of a login, the description of a device, and the server's OAuth error.
@_exported public import LatchkeyJOSE
@_exported public import LatchkeyOAuth
