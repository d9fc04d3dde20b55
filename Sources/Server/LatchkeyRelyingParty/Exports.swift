// JSON values and keys in JSON (RFC 7517) are part of this module's API.
@_exported public import LatchkeyJOSE
