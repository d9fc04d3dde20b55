/// The pages' Mustache templates. `{{x}}` is escaped; only the layout's content and style are not.
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
        SettingsPage.template: settings, BiometricPage.template: biometric,
        LockerPage.template: locker,
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

    private static let biometric = """
        <p class="back"><a href="/settings"><span aria-hidden="true">‹</span> Settings</a></p>
        <h1>{{title}}</h1>
        <p class="lead">These devices can log in as <strong>{{username}}</strong>.</p>
        {{#notice}}<p class="note" role="status">{{notice}}</p>{{/notice}}
        {{#hasNone}}<p class="empty">No device is set up.</p>{{/hasNone}}
        <ul class="list">
        {{#devices}}
        <li class="row">
        <span><strong><bdi>{{model}}</bdi></strong>
        <small>{{#name}}<bdi>{{name}}</bdi> · {{/name}}added {{day}}</small>
        <small class="kid">{{kid}}</small></span>
        <form method="post" action="/settings/biometric">
        <input type="hidden" name="csrf_token" value="{{token}}">
        <input type="hidden" name="x_action" value="remove">
        <input type="hidden" name="x_identity_id" value="{{id}}">
        <button class="danger" type="submit" aria-label="Remove {{model}}">Remove</button>
        </form>
        </li>
        {{/devices}}
        </ul>
        """

    private static let locker = """
        <p class="back"><a href="/settings"><span aria-hidden="true">‹</span> Settings</a></p>
        <h1>{{title}}</h1>
        <p class="lead">Apps on these devices keep data that only <strong>{{username}}</strong> can open.</p>
        {{#notice}}<p class="note" role="status">{{notice}}</p>{{/notice}}
        {{#hasNone}}<p class="empty">No device is enrolled.</p>{{/hasNone}}
        <ul class="list">
        {{#devices}}
        <li class="row">
        <span><strong><bdi>{{model}}</bdi></strong>
        <small>{{#name}}<bdi>{{name}}</bdi> · {{/name}}{{client}} · enrolled {{day}}</small>
        <small>{{lastUse}} · {{easyAccess}}</small>
        <small class="kid">{{shortID}}</small></span>
        <form method="post" action="/settings/locker">
        <input type="hidden" name="csrf_token" value="{{token}}">
        <input type="hidden" name="x_action" value="revoke">
        <input type="hidden" name="x_enrolment_id" value="{{id}}">
        <button class="danger" type="submit" aria-label="Revoke {{model}}, {{shortID}}">Revoke</button>
        </form>
        </li>
        {{/devices}}
        </ul>
        """
}
