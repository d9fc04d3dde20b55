import Hummingbird
import JWTKit
import Mustache
import CryptoExtras
import GRDB
@main struct Main { static func main() {} }
