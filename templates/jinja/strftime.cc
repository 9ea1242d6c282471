#include "templates/jinja/strftime.h"

#include <chrono>

#include "templates/jinja/failure.h"
#include "templates/jinja/number_text.h"

namespace ibid::jinja {
namespace {

constexpr std::string_view kDays[] = {"Sunday",   "Monday", "Tuesday", "Wednesday",
                                      "Thursday", "Friday", "Saturday"};
constexpr std::string_view kMonths[] = {"January",   "February", "March",    "April",
                                        "May",       "June",     "July",     "August",
                                        "September", "October",  "November", "December"};

struct Moment {
  int year, month, day, hour, minute, second;
  int weekday;      // 0: Sunday
  int day_of_year;  // from 0
};

int field(std::string_view now, size_t at, size_t digits, int low, int high) {
  const auto value = now.size() >= at + digits ? parse_int(now.substr(at, digits)) : std::nullopt;
  if (!value || *value < low || *value > high) {
    fail("now is \"" + std::string(now) + "\"; wanted YYYY-MM-DDTHH:MM:SS");
  }
  return static_cast<int>(*value);
}

Moment parse(std::string_view now) {
  Moment m{};
  m.year = field(now, 0, 4, 1, 9999);
  m.month = field(now, 5, 2, 1, 12);
  m.day = field(now, 8, 2, 1, 31);
  m.hour = field(now, 11, 2, 0, 23);
  m.minute = field(now, 14, 2, 0, 59);
  m.second = field(now, 17, 2, 0, 59);
  using namespace std::chrono;
  const year_month_day date{year{m.year}, month{static_cast<unsigned>(m.month)},
                            day{static_cast<unsigned>(m.day)}};
  if (!date.ok()) fail("now is \"" + std::string(now) + "\", which is no date");
  const sys_days days = date;
  m.weekday = static_cast<int>(weekday(days).c_encoding());
  m.day_of_year = static_cast<int>((days - sys_days(year_month_day{year{m.year}, January, day{1}})).count());
  return m;
}

std::string padded(int value, int width, char fill = '0') {
  std::string digits = std::to_string(value);
  if (static_cast<int>(digits.size()) < width)
    digits.insert(0, static_cast<size_t>(width) - digits.size(), fill);
  return digits;
}

// ISO 8601 week and the year it belongs to.
std::pair<int, int> iso_week(const Moment& m) {
  const int monday_based = (m.weekday + 6) % 7;
  int week = (m.day_of_year - monday_based + 10) / 7;
  const auto is_leap = [](int y) { return (y % 4 == 0 && y % 100 != 0) || y % 400 == 0; };
  const auto weeks_in = [&](int y, int first_day) {  // first_day: weekday of 1 January, Monday 0
    return first_day == 3 || (first_day == 2 && is_leap(y)) ? 53 : 52;
  };
  const int january_first = ((monday_based - m.day_of_year) % 7 + 7) % 7;
  if (week < 1) {
    const int days_before = is_leap(m.year - 1) ? 366 : 365;
    return {m.year - 1, weeks_in(m.year - 1, ((january_first - days_before) % 7 + 7) % 7)};
  }
  if (week > weeks_in(m.year, january_first)) return {m.year + 1, 1};
  return {m.year, week};
}

std::string expand(const Moment& m, char directive, bool plain);

std::string expand_all(const Moment& m, std::string_view directives) {
  std::string out;
  for (const char c : directives)
    out += (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ? expand(m, c, false) : std::string(1, c);
  return out;
}

std::string expand(const Moment& m, char directive, bool plain) {
  const auto two = [plain](int value) { return plain ? std::to_string(value) : padded(value, 2); };
  const int hour12 = m.hour % 12 == 0 ? 12 : m.hour % 12;
  switch (directive) {
    case 'a': return std::string(kDays[m.weekday].substr(0, 3));
    case 'A': return std::string(kDays[m.weekday]);
    case 'b':
    case 'h': return std::string(kMonths[m.month - 1].substr(0, 3));
    case 'B': return std::string(kMonths[m.month - 1]);
    case 'c':
      return expand(m, 'a', false) + " " + expand(m, 'b', false) + " " + padded(m.day, 2, ' ') + " " +
             expand_all(m, "T Y");
    case 'C': return two(m.year / 100);
    case 'd': return two(m.day);
    case 'D':
    case 'x': return expand_all(m, "m/d/y");
    case 'e': return plain ? std::to_string(m.day) : padded(m.day, 2, ' ');
    case 'f': return "000000";
    case 'F': return expand_all(m, "Y-m-d");
    case 'g': return two(iso_week(m).first % 100);
    case 'G': return std::to_string(iso_week(m).first);
    case 'H': return two(m.hour);
    case 'I': return two(hour12);
    case 'j': return plain ? std::to_string(m.day_of_year + 1) : padded(m.day_of_year + 1, 3);
    case 'k': return plain ? std::to_string(m.hour) : padded(m.hour, 2, ' ');
    case 'l': return plain ? std::to_string(hour12) : padded(hour12, 2, ' ');
    case 'm': return two(m.month);
    case 'M': return two(m.minute);
    case 'n': return "\n";
    case 'p': return m.hour < 12 ? "AM" : "PM";
    case 'P': return m.hour < 12 ? "am" : "pm";
    case 'r': return expand_all(m, "I:M:S p");
    case 'R': return expand_all(m, "H:M");
    case 'S': return two(m.second);
    case 't': return "\t";
    case 'T':
    case 'X': return expand_all(m, "H:M:S");
    case 'u': return std::to_string(m.weekday == 0 ? 7 : m.weekday);
    case 'U': return two((m.day_of_year + 7 - m.weekday) / 7);
    case 'V': return two(iso_week(m).second);
    case 'w': return std::to_string(m.weekday);
    case 'W': return two((m.day_of_year + 7 - (m.weekday + 6) % 7) / 7);
    case 'y': return two(m.year % 100);
    case 'Y': return std::to_string(m.year);
    case 'z':
    case 'Z': return "";
    case '%': return "%";
    default: return std::string("%") + directive;
  }
}

}  // namespace

std::string format_time(RenderState& state, std::string_view now, const std::string& format) {
  const Moment moment = parse(now);
  state.meter.create(format.size() * 12);
  std::string out;
  for (size_t i = 0; i < format.size(); ++i) {
    if (format[i] != '%' || i + 1 == format.size()) {
      out += format[i];
      continue;
    }
    ++i;
    const bool plain = format[i] == '-' && i + 1 < format.size();  // glibc: no padding
    if (plain) ++i;
    out += expand(moment, format[i], plain);
  }
  return out;
}

}  // namespace ibid::jinja
