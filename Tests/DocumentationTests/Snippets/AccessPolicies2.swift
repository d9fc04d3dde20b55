import Latchkey

/// A PIN that serves for a minute, after which the next use asks again.
let forAMinute = AccessPolicy(.pin, reuseSeconds: 60)
