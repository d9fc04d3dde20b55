internal import NIOHTTP1

/// What the browser is shown on the way to a login and at its end.
enum RedirectReply: Equatable {
    /// The page at this address.
    case seeOther(String)
    case done
    case refused
    case linkReused
    case notFound
    case notAllowed

    var status: HTTPResponseStatus {
        switch self {
        case .seeOther: .seeOther
        case .done: .ok
        case .refused: .badRequest
        case .linkReused: .gone
        case .notFound: .notFound
        case .notAllowed: .methodNotAllowed
        }
    }

    var location: String? {
        guard case .seeOther(let url) = self else { return nil }
        return url
    }

    var page: String {
        """
        <!doctype html>
        <html lang="en"><head><meta charset="utf-8"><title>Latchkey</title></head>
        <body><h1>\(heading)</h1><p>\(text)</p></body></html>

        """
    }

    private var heading: String {
        switch self {
        case .seeOther: "The login page is elsewhere"
        case .done: "You can close this window"
        case .linkReused: "The login was stopped"
        case .refused, .notFound, .notAllowed: "Nothing to see here"
        }
    }

    private var text: String {
        switch self {
        case .seeOther: "Your browser should have gone there by itself."
        case .done: "The program that sent you here goes on by itself."
        case .refused: "This is not the answer to the login that the program waits for."
        case .linkReused:
            "Its link was used before, and works once. If that was not you, somebody else tried to log you in."
        case .notFound, .notAllowed: "This address only takes part in one login."
        }
    }
}
