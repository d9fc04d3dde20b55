/// What came of asking for a PIN. That a person declines is an outcome, not an accident.
public enum PINAnswer: Sendable {
    /// What was typed. Whether it is right, the hardware says.
    case pin(PIN)
    /// The person said no, closed the prompt, or did not answer in time. The text says which.
    case declined(String)
}
