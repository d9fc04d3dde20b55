#include <curl/curl.h>

/* One function for each type of argument of curl_easy_setopt(3) and curl_easy_getinfo(3), because Swift does not import
   variadic functions. */

static inline CURLcode latchkey_curl_set_number(CURL *handle, CURLoption option, long value) {
    return curl_easy_setopt(handle, option, value);
}

static inline CURLcode latchkey_curl_set_pointer(CURL *handle, CURLoption option, const void *value) {
    return curl_easy_setopt(handle, option, value);
}

static inline CURLcode latchkey_curl_set_writer(CURL *handle, CURLoption option, curl_write_callback value) {
    return curl_easy_setopt(handle, option, value);
}

static inline CURLcode latchkey_curl_set_opener(CURL *handle, curl_opensocket_callback value) {
    return curl_easy_setopt(handle, CURLOPT_OPENSOCKETFUNCTION, value);
}

static inline CURLcode latchkey_curl_set_prerequest(CURL *handle, curl_prereq_callback value) {
    return curl_easy_setopt(handle, CURLOPT_PREREQFUNCTION, value);
}

static inline CURLcode latchkey_curl_get_number(CURL *handle, CURLINFO information, long *value) {
    return curl_easy_getinfo(handle, information, value);
}
