import Latchkey

/// A PIN that is valid for a minute; after that the next use prompts again.
let forAMinute = AccessPolicy(.pin, reuseSeconds: 60)
