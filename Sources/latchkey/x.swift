import ArgumentParser
import Latchkey
import Configuration
@main struct Main { static func main() {} }
