/// The pages' Mustache templates. All values are escaped, except the layout's content and style.
enum Templates {
    static let layout = """
        <!doctype html>
        <html lang="en">
        <head>
        <meta charset="utf-8">
        <meta name="viewport" content="width=device-width, initial-scale=1">
        <title>{{title}} · Latchkey</title>
        <style>{{{style}}}</style>
        </head>
        <body>
        <header><span class="mark" aria-hidden="true"></span><span>Latchkey</span></header>
        <main>
        {{{content}}}
        </main>
        </body>
        </html>
        """

    static let pages = [
        LoginPage.template: login, MessagePage.template: message, ConfirmPage.template: confirm,
        SettingsPage.template: settings, DevicesPage.template: devices,
    ]

    private static let login = """
        <h1>{{title}}</h1>
        {{#clientName}}<p class="lead">to continue to <strong>{{clientName}}</strong></p>{{/clientName}}
        {{#problem}}<p class="problem" role="alert">{{problem}}</p>{{/problem}}
        {{#isPinned}}<p class="note">Use the account for which this device is set up.</p>{{/isPinned}}
        <form method="post" action="{{action}}">
        <input type="hidden" name="csrf_token" value="{{token}}">
        <label for="username">User name</label>
        <input id="username" name="username" value="{{username}}" autocomplete="username" autocapitalize="none" \
        spellcheck="false" required{{^username}} autofocus{{/username}}>
        <label for="password">Password</label>
        <input id="password" name="password" type="password" autocomplete="current-password" \
        required{{#username}} autofocus{{/username}}>
        <div class="actions">
        <button type="submit">Log in</button>
        {{#canCancel}}<a class="button quiet" href="{{action}}&amp;x_cancel=1">Cancel</a>{{/canCancel}}
        </div>
        </form>
        """

    private static let message = """
        <h1>{{title}}</h1>
        <p>{{text}}</p>
        """

    private static let confirm = """
        <h1>{{title}}</h1>
        <p>{{text}}</p>
        <form method="post" action="{{action}}">
        <input type="hidden" name="csrf_token" value="{{token}}">
        <div class="actions"><button type="submit">{{button}}</button></div>
        </form>
        """

    private static let settings = """
        <h1>{{title}}</h1>
        <p class="lead">Logged in as <strong>{{username}}</strong></p>
        <ul class="list">
        {{#showsBiometric}}
        <li><a class="row" href="/settings/biometric"><span><strong>Biometric login</strong>\
        <small>{{deviceCount}}</small></span><span class="arrow" aria-hidden="true">›</span></a></li>
        {{/showsBiometric}}
        {{#showsLocker}}
        <li><a class="row" href="/settings/locker"><span><strong>Enrolled devices</strong>\
        <small>{{enrolmentCount}}</small></span><span class="arrow" aria-hidden="true">›</span></a></li>
        {{/showsLocker}}
        </ul>
        <form method="post" action="/logout">
        <input type="hidden" name="csrf_token" value="{{token}}">
        <div class="actions"><button class="quiet" type="submit">Log out</button></div>
        </form>
        """

    private static let devices = """
        <p class="back"><a href="/settings"><span aria-hidden="true">‹</span> Settings</a></p>
        <h1>{{kind.title}}</h1>
        <p class="lead">{{kind.leadBefore}} <strong>{{username}}</strong>{{kind.leadAfter}}</p>
        {{#notice}}<p class="note" role="status">{{notice}}</p>{{/notice}}
        {{#hasNone}}<p class="empty">{{kind.empty}}</p>{{/hasNone}}
        <ul class="list">
        {{#devices}}
        <li class="row">
        <span><strong><bdi>{{model}}</bdi></strong>
        <small>{{#name}}<bdi>{{name}}</bdi> · {{/name}}{{details}}</small>
        {{#use}}<small>{{use}}</small>{{/use}}
        {{#proof}}<small>{{proof}}</small>{{/proof}}
        <small class="kid">{{label}}</small></span>
        <form method="post" action="/settings/{{kind.path}}">
        <input type="hidden" name="csrf_token" value="{{token}}">
        <input type="hidden" name="x_action" value="{{kind.action}}">
        <input type="hidden" name="{{kind.member}}" value="{{id}}">
        <button class="danger" type="submit" aria-label="{{kind.button}} {{spokenName}}">{{kind.button}}</button>
        </form>
        </li>
        {{/devices}}
        </ul>
        """
}

/// The pages' style. Its hash is in their content security policy.
enum Stylesheet {
    static let css = """
        :root { color-scheme: light dark; --ink: #1c2430; --soft: #5b6675; --line: #d9dee6; --paper: #fff; \
        --back: #f3f5f8; --key: #1f6f5c; --keyink: #fff; --bad: #a32a2a; --badback: #fbeeee; --note: #eef5f3 }
        @media (prefers-color-scheme: dark) { :root { --ink: #e6eaf0; --soft: #9aa6b5; --line: #313a46; \
        --paper: #1a2029; --back: #12161c; --key: #58b79e; --keyink: #0c1512; --bad: #f09a9a; --badback: #3a2224; \
        --note: #1d2f2b } }
        * { box-sizing: border-box }
        body { margin: 0; min-height: 100vh; background: var(--back); color: var(--ink); \
        font: 16px/1.5 system-ui, -apple-system, "Segoe UI", "DejaVu Sans", sans-serif; display: flex; \
        flex-direction: column; align-items: center; padding: 8vh 16px 32px }
        header { display: flex; align-items: center; gap: 10px; font-weight: 600; letter-spacing: .02em; \
        margin-bottom: 20px; color: var(--soft) }
        .mark { width: 12px; height: 20px; border: 3px solid var(--key); border-radius: 8px 8px 3px 3px }
        main { width: 100%; max-width: 460px; background: var(--paper); border: 1px solid var(--line); \
        border-radius: 12px; padding: 28px }
        h1 { font-size: 1.5rem; line-height: 1.25; margin: 0 0 4px }
        p { margin: 0 0 16px }
        .lead, .empty { color: var(--soft) }
        .lead strong { color: var(--ink) }
        .problem { background: var(--badback); color: var(--bad); border-radius: 8px; padding: 10px 12px }
        .note { background: var(--note); border-radius: 8px; padding: 10px 12px }
        .back { margin-bottom: 12px }
        a { color: var(--key) }
        label { display: block; font-weight: 600; margin: 14px 0 6px }
        input:not([type=hidden]) { width: 100%; font: inherit; color: inherit; background: var(--back); \
        border: 1px solid var(--line); border-radius: 8px; padding: 10px 12px }
        input:focus-visible, button:focus-visible, a:focus-visible { outline: 3px solid var(--key); outline-offset: 2px }
        .actions { display: flex; gap: 10px; margin-top: 22px }
        button, a.button { font: inherit; font-weight: 600; border: 1px solid transparent; border-radius: 8px; \
        padding: 9px 18px; background: var(--key); color: var(--keyink); cursor: pointer }
        a.button { text-decoration: none }
        button.quiet, a.quiet { background: none; border-color: var(--line); color: var(--ink) }
        button.danger { background: none; border-color: var(--line); color: var(--bad); padding: 6px 12px }
        .list { list-style: none; margin: 0; padding: 0 }
        .row { display: flex; justify-content: space-between; align-items: center; gap: 16px; padding: 14px 0; \
        border-top: 1px solid var(--line); color: inherit; text-decoration: none }
        .row strong, .row small { display: block; overflow-wrap: anywhere }
        small { color: var(--soft) }
        .kid { font-family: ui-monospace, "DejaVu Sans Mono", monospace; font-size: .72rem }
        .arrow { color: var(--soft); font-size: 1.4rem }
        """
}
