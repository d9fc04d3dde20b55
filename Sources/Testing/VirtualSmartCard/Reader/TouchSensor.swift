internal import Dispatch
internal import Synchronization

/// The touch sensor of the card.
final class TouchSensor: Sendable {
    private struct State {
        var mode = TouchMode.auto
        var isWaiting = false
        var isTouched = false
    }

    private let state = Mutex(State())
    private let ended = DispatchSemaphore(value: 0)

    var mode: TouchMode {
        get { state.withLock { $0.mode } }
        set { state.withLock { $0.mode = newValue } }
    }

    /// Whether a key is waiting for a touch.
    var isWaiting: Bool { state.withLock { $0.isWaiting } }

    /// Touches the sensor. Does nothing if no key is waiting.
    ///
    /// - Returns: Whether a key was waiting.
    @discardableResult
    func press() -> Bool { end(touched: true) }

    /// Ends the wait without a touch.
    func cancel() {
        end(touched: false)
    }

    /// Blocks until the sensor is touched, the wait is cancelled, or `timeout` has passed.
    ///
    /// - Parameter isPowered: Whether the card is still connected. It is called once, when
    ///   ``cancel()`` is already effective.
    /// - Returns: Whether the sensor was touched.
    func waitForTouch(timeout: Duration, while isPowered: () -> Bool) -> Bool {
        let mode = state.withLock { state in
            state.isWaiting = state.mode == .wait
            state.isTouched = state.mode == .auto
            return state.mode
        }
        guard mode == .wait else { return mode == .auto }
        if !isPowered() { cancel() }
        let seconds =
            Double(timeout.components.seconds) + Double(timeout.components.attoseconds) / 1e18
        if ended.wait(timeout: .now() + seconds) == .timedOut {
            // Each wait consumes exactly one signal: this one, or that of a touch which came at the
            // same time.
            cancel()
            ended.wait()
        }
        return state.withLock { $0.isTouched }
    }

    @discardableResult
    private func end(touched: Bool) -> Bool {
        state.withLock { state in
            guard state.isWaiting else { return false }
            state.isWaiting = false
            state.isTouched = touched
            ended.signal()
            return true
        }
    }
}

/// The reaction to a key that requires a touch.
public enum TouchMode: String, CaseIterable, Sendable {
    /// The key is touched at once.
    case auto
    /// The touch is refused at once.
    case deny
    /// The key waits for ``VirtualCard/press()``, until the timeout.
    case wait
}
