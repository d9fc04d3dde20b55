#include <curl/curl.h>

/* This module links no library: LatchkeyOAuth loads libcurl at the first request.

   The functions call curl_easy_setopt(3) and curl_easy_getinfo(3) at their loaded addresses. There is one function for each
   type of argument, because Swift does not import variadic functions. */
typedef CURLcode (*latchkey_curl_setopt)(CURL *, CURLoption, ...);
typedef CURLcode (*latchkey_curl_getinfo)(CURL *, CURLINFO, ...);

static inline CURLcode latchkey_curl_set_number(void *setopt, CURL *handle, CURLoption option, long value) {
    return ((latchkey_curl_setopt)setopt)(handle, option, value);
}

static inline CURLcode latchkey_curl_set_pointer(void *setopt, CURL *handle, CURLoption option, const void *value) {
    return ((latchkey_curl_setopt)setopt)(handle, option, value);
}

static inline CURLcode latchkey_curl_set_writer(
    void *setopt, CURL *handle, CURLoption option, curl_write_callback value) {
    return ((latchkey_curl_setopt)setopt)(handle, option, value);
}

static inline CURLcode latchkey_curl_set_opener(void *setopt, CURL *handle, curl_opensocket_callback value) {
    return ((latchkey_curl_setopt)setopt)(handle, CURLOPT_OPENSOCKETFUNCTION, value);
}

static inline CURLcode latchkey_curl_set_prerequest(void *setopt, CURL *handle, curl_prereq_callback value) {
    return ((latchkey_curl_setopt)setopt)(handle, CURLOPT_PREREQFUNCTION, value);
}

static inline CURLcode latchkey_curl_get_number(void *getinfo, CURL *handle, CURLINFO information, long *value) {
    return ((latchkey_curl_getinfo)getinfo)(handle, information, value);
}
