internal import NIOHTTP1

/// What the browser is shown at the end of a login.
enum RedirectReply {
    case done
    case refused
    case notFound
    case notAllowed

    var status: HTTPResponseStatus {
        switch self {
        case .done: .ok
        case .refused: .badRequest
        case .notFound: .notFound
        case .notAllowed: .methodNotAllowed
        }
    }

    var page: String {
        """
        <!doctype html>
        <html lang="en"><head><meta charset="utf-8"><title>Latchkey</title></head>
        <body><h1>\(heading)</h1><p>\(text)</p></body></html>

        """
    }

    private var heading: String {
        self == .done ? "You can close this window" : "Nothing to see here"
    }

    private var text: String {
        switch self {
        case .done: "The program that sent you here goes on by itself."
        case .refused: "This is not the answer to the login that the program waits for."
        case .notFound, .notAllowed: "This address only takes the answer to one login."
        }
    }
}
