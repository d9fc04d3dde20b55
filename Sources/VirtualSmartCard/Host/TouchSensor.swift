internal import Dispatch
internal import Synchronization

/// The place on the key that a person touches.
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

    /// Whether the light blinks.
    var isWaiting: Bool { state.withLock { $0.isWaiting } }

    /// Touches the key. Does nothing when it does not wait.
    ///
    /// - Returns: Whether it waited.
    @discardableResult
    func press() -> Bool { end(touched: true) }

    /// Ends the waiting without a touch.
    func giveUp() {
        end(touched: false)
    }

    /// Blocks until the key is touched, or will not be.
    ///
    /// - Parameter isPowered: Whether there is anybody to wait for; asked once, when ``giveUp()`` already works.
    /// - Returns: Whether it was touched within `timeout`.
    func waitForTouch(timeout: Duration, while isPowered: () -> Bool) -> Bool {
        let mode = state.withLock { state in
            state.isWaiting = state.mode == .wait
            state.isTouched = state.mode == .auto
            return state.mode
        }
        guard mode == .wait else { return mode == .auto }
        if !isPowered() { giveUp() }
        let seconds = Double(timeout.components.seconds) + Double(timeout.components.attoseconds) / 1e18
        if ended.wait(timeout: .now() + seconds) == .timedOut {
            // Each waiting ends with one signal, from here or from whoever was quicker, and takes it away.
            giveUp()
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
