internal import AsyncHTTPClient
internal import Latchkey
internal import NIOHTTP1
let x = 1
