// The formats of strings that are regular, as regular expressions. Each is a subset of what the format allows: where
// that says less than the specification, the comment names it.
#include <array>
#include <string_view>
#include <utility>

#include "grammar/schema_compiler.h"

namespace ibid {
namespace {

// RFC 3339, with the days that months have; the year 0000 is left out, because programs refuse it.
#define IBID_YEAR "(?:[0-9]{3}[1-9]|[0-9]{2}[1-9]0|[0-9][1-9]00|[1-9]000)"
#define IBID_LEAP_YEAR \
  "(?:[0-9]{2}(?:0[48]|[2468][048]|[13579][26])|(?:0[48]|[2468][048]|[13579][26])00)"
#define IBID_DAY                                                                            \
  "(?:(?:0[13578]|1[02])-(?:0[1-9]|[12][0-9]|3[01])|(?:0[469]|11)-(?:0[1-9]|[12][0-9]|30)|" \
  "02-(?:0[1-9]|1[0-9]|2[0-8]))"
#define IBID_DATE "(?:" IBID_YEAR "-" IBID_DAY "|" IBID_LEAP_YEAR "-02-29)"
// Leap seconds are left out: whether there is one depends on the date.
#define IBID_HOUR "(?:[01][0-9]|2[0-3])"
#define IBID_TIME \
  IBID_HOUR ":[0-5][0-9]:[0-5][0-9](?:\\.[0-9]{1,18})?(?:[Zz]|[+-]" IBID_HOUR ":[0-5][0-9])"
// RFC 3339, appendix A.
#define IBID_DURATION_TIME "T(?:[0-9]+H(?:[0-9]+M(?:[0-9]+S)?)?|[0-9]+M(?:[0-9]+S)?|[0-9]+S)"
#define IBID_DURATION_DATE "(?:[0-9]+Y(?:[0-9]+M(?:[0-9]+D)?)?|[0-9]+M(?:[0-9]+D)?|[0-9]+D)"
#define IBID_OCTET "(?:25[0-5]|2[0-4][0-9]|1[0-9]{2}|[1-9]?[0-9])"
#define IBID_IPV4 "(?:" IBID_OCTET "\\.){3}" IBID_OCTET
#define IBID_H16 "[0-9A-Fa-f]{1,4}"
#define IBID_LS32 "(?:" IBID_H16 ":" IBID_H16 "|" IBID_IPV4 ")"
#define IBID_IPV6                                                                                                    \
  "(?:" "(?:" IBID_H16 ":){6}" IBID_LS32 "|::(?:" IBID_H16 ":){5}" IBID_LS32 "|(?:" IBID_H16 ")?::(?:" IBID_H16 \
  ":){4}" IBID_LS32 "|(?:(?:" IBID_H16 ":){0,1}" IBID_H16 ")?::(?:" IBID_H16 ":){3}" IBID_LS32 \
  "|(?:(?:" IBID_H16 ":){0,2}" IBID_H16 ")?::(?:" IBID_H16 ":){2}" IBID_LS32 "|(?:(?:" IBID_H16 ":){0,3}" IBID_H16 \
  ")?::" IBID_H16 ":" IBID_LS32 "|(?:(?:" IBID_H16 ":){0,4}" IBID_H16 ")?::" IBID_LS32 "|(?:(?:" IBID_H16 \
  ":){0,5}" IBID_H16 ")?::" IBID_H16 "|(?:(?:" IBID_H16 ":){0,6}" IBID_H16 ")?::" ")"
// RFC 1123: labels of up to 63 characters, and 253 in all. To count both at once would take a state for each pair of
// counts; so names have up to four labels, the last of up to 61 characters, or up to eight of up to 30. Names in
// Punycode, and all others with two hyphens behind the second character, are left out.
#define IBID_ALNUM "[0-9A-Za-z]"
#define IBID_ALNUM_HYPHEN "[0-9A-Za-z-]"
#define IBID_LABEL(more)                                                                                     \
  IBID_ALNUM "(?:" IBID_ALNUM "|" IBID_ALNUM_HYPHEN "{1,2}" IBID_ALNUM "|" IBID_ALNUM_HYPHEN "(?:" IBID_ALNUM \
             IBID_ALNUM_HYPHEN "|-" IBID_ALNUM ")" IBID_ALNUM_HYPHEN "{0," more "}" IBID_ALNUM ")?"
#define IBID_HOSTNAME \
  "(?:(?:" IBID_LABEL("58") "\\.){0,3}" IBID_LABEL("56") "|(?:" IBID_LABEL("25") "\\.){4,7}" IBID_LABEL("25") ")"
// RFC 5321.
#define IBID_ATEXT "[0-9A-Za-z!#$%&'*+/=?^_`{|}~-]"
#define IBID_QUOTED "\"(?:[ !#-\\[\\]-~]|\\\\[ -~])*\""
#define IBID_MAILBOX "(?:" IBID_ATEXT "+(?:\\." IBID_ATEXT "+)*|" IBID_QUOTED ")"
#define IBID_MAIL_HOST "(?:" IBID_HOSTNAME "|\\[(?:" IBID_IPV4 "|IPv6:" IBID_IPV6 ")\\])"
// RFC 3986: characters and escapes of each part.
#define IBID_URI_CHAR "(?:[0-9A-Za-z._~!$&'()*+,;=:@-]|%[0-9A-Fa-f]{2})"
#define IBID_URI_USER "(?:(?:[0-9A-Za-z._~!$&'()*+,;=:-]|%[0-9A-Fa-f]{2})*@)?"
#define IBID_URI_HOST "(?:(?:[0-9A-Za-z._~!$&'()*+,;=-]|%[0-9A-Fa-f]{2})*|\\[" IBID_IPV6 "\\])(?::[0-9]*)?"
#define IBID_URI_TAIL "(?:\\?(?:" IBID_URI_CHAR "|[/?])*)?(?:#(?:" IBID_URI_CHAR "|[/?])*)?"
#define IBID_URI_AUTHORITY "//" IBID_URI_USER IBID_URI_HOST "(?:/" IBID_URI_CHAR "*)*"
#define IBID_URI_PATH "(?:/(?:" IBID_URI_CHAR "+(?:/" IBID_URI_CHAR "*)*)?)"
#define IBID_URI                                                                                                     \
  "[A-Za-z][0-9A-Za-z+.-]*:(?:" IBID_URI_AUTHORITY "|" IBID_URI_PATH "|" IBID_URI_CHAR "+(?:/" IBID_URI_CHAR "*)*|)" \
  IBID_URI_TAIL
#define IBID_URI_FIRST "(?:[0-9A-Za-z._~!$&'()*+,;=@-]|%[0-9A-Fa-f]{2})+"
#define IBID_URI_RELATIVE                                                                                 \
  "(?:" IBID_URI_AUTHORITY "|" IBID_URI_PATH "|" IBID_URI_FIRST "(?:/" IBID_URI_CHAR "*)*|)" IBID_URI_TAIL
#define IBID_POINTER "(?:/(?:[^~/]|~[01])*)*"

constexpr std::array<std::pair<std::string_view, const char*>, 13> kFormats = {{
    {"date", IBID_DATE},
    {"time", IBID_TIME},
    {"date-time", IBID_DATE "[Tt]" IBID_TIME},
    {"duration", "P(?:" IBID_DURATION_DATE "(?:" IBID_DURATION_TIME ")?|" IBID_DURATION_TIME "|[0-9]+W)"},
    {"uuid", "[0-9A-Fa-f]{8}-[0-9A-Fa-f]{4}-[0-9A-Fa-f]{4}-[0-9A-Fa-f]{4}-[0-9A-Fa-f]{12}"},
    {"ipv4", IBID_IPV4},
    {"ipv6", IBID_IPV6},
    {"email", IBID_MAILBOX "@" IBID_MAIL_HOST},
    {"hostname", IBID_HOSTNAME},
    {"uri", IBID_URI},
    {"uri-reference", "(?:" IBID_URI "|" IBID_URI_RELATIVE ")"},
    {"json-pointer", IBID_POINTER},
    {"relative-json-pointer", "(?:0|[1-9][0-9]*)(?:#|" IBID_POINTER ")"},
}};

}  // namespace

const char* format_pattern(std::string_view name) {
  for (const auto& [known, pattern] : kFormats) {
    if (known == name) return pattern;
  }
  return nullptr;
}

}  // namespace ibid
