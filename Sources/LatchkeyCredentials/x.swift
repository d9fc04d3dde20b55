// FROM THE LEAD (07:48), for the helper `vault`: another helper, `credentials` (branch credentials), writes
// LatchkeyCredentials, LatchkeyCredentialsFoundation, `latchkey credential …` and their tests from now on. You keep: the record
// layer (schema versions, indexed find over tags and chosen claims: commit that EARLY, `credentials` merges your branch for
// it), LatchkeyVault, `latchkey vault …`, property tests with crash injection over the record layer and the vault, the
// 100,000-record work. Do not commit this file's change; `git checkout` it.
