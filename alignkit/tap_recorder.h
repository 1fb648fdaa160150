// Record arrays between the stages of C++ preprocessing code, for `alignkit match --taps`.
//
// C++17, standard library only. Save it as alignkit_tap.h beside your code:
//     #include "alignkit_tap.h"
//     alignkit::tap("after_resize", mat.ptr<uint8_t>(), {224, 224, 3}, "cats/1.jpg");
//     alignkit::tap("after_resize", mat, "cats/1.jpg");   // a cv::Mat, strided or not
//
// Nothing is recorded unless the environment names a folder: ALIGNKIT_TAPS=DIR. Each array becomes
// DIR/<stage>/<image>.npy, each record a line of DIR/taps-<process>.jsonl. Of each stage and image the
// first array of a process is kept, of the first 100 images (ALIGNKIT_TAPS_IMAGES=N).
#pragma once
#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iomanip>
#include <locale>
#include <map>
#include <mutex>
#include <random>
#include <set>
#include <sstream>
#include <stdexcept>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

namespace alignkit { namespace tap_detail {
namespace fs = std::filesystem;

inline std::string escaped(const std::string& text, const char* forbidden, bool json) {
  std::string out;
  char code[8];
  for (unsigned char c : text) {
    if (c >= 32 && c != 127 && !std::strchr(forbidden, c)) { out += static_cast<char>(c); continue; }
    std::snprintf(code, sizeof code, json ? "\\u%04x" : "%%%02X", c);
    out += code;
  }
  if (!json && out.find_first_not_of('.') == std::string::npos)  // "." and ".." are no names
    out = out.empty() ? "%" : "%2E" + (out.size() > 1 ? escaped(out.substr(1), forbidden, json) : "");
  return out;
}

inline std::string hex(int digits) {
  std::random_device source;
  std::string out;
  while (digits-- > 0) out += "0123456789abcdef"[source() % 16];
  return out;
}

template <class T> constexpr char kind() {
  static_assert(std::is_arithmetic<T>::value, "alignkit::tap records real numbers");
  return std::is_same<T, bool>::value ? 'b' : std::is_floating_point<T>::value ? 'f' : std::is_unsigned<T>::value ? 'u' : 'i';
}

struct Recorder {
  std::string folder = std::getenv("ALIGNKIT_TAPS") ? std::getenv("ALIGNKIT_TAPS") : "";
  std::size_t images = std::getenv("ALIGNKIT_TAPS_IMAGES") ? std::stoul(std::getenv("ALIGNKIT_TAPS_IMAGES")) : 100;
  std::string log = "taps-" + hex(12) + ".jsonl";
  std::map<std::string, std::set<std::string>> seen;
  std::mutex lock;
  bool wanted(const std::string& stage, const std::string& image) {
    if (folder.empty()) return false;
    std::lock_guard<std::mutex> held(lock);
    if (!seen.count(image) && seen.size() >= images) return false;
    return seen[image].insert(stage).second;
  }
};

inline Recorder& recorder() { static Recorder one; return one; }
template <class T>
void write(const std::string& stage, const T* data, const std::vector<std::size_t>& shape, const std::string& image) {
  Recorder& to = recorder();
  if (stage.empty() || image.find_first_not_of('/') == std::string::npos) throw std::runtime_error("alignkit::tap needs a stage and an image");
  const char* forbidden = "<>:\"|?*\\/%";
  fs::path file = escaped(stage, forbidden, false);
  for (std::size_t from = 0, end; from <= image.size(); from = end + 1) {
    end = std::min(image.find('/', from), image.size());
    if (end > from) file /= escaped(image.substr(from, end - from), forbidden, false);
  }
  file += ".npy";
  std::string list;
  std::size_t count = 1;
  for (std::size_t side : shape) { list += (list.empty() ? "" : ", ") + std::to_string(side); count *= side; }
  const std::uint16_t one = 1;
  const char type = kind<T>();
  const char* order = sizeof(T) == 1 ? "|" : *reinterpret_cast<const char*>(&one) ? "<" : ">";
  std::string header = std::string("{'descr': '") + order + type + std::to_string(sizeof(T)) + "', 'fortran_order': False, 'shape': (" + list + (list.empty() ? "" : ",") + "), }";
  header += std::string((64 - (10 + header.size() + 1) % 64) % 64, ' ') + "\n";
  const fs::path target = fs::path(to.folder) / file;
  const fs::path unfinished = target.parent_path() / ("." + hex(16) + ".unfinished");
  fs::create_directories(target.parent_path());
  {
    std::ofstream out(unfinished, std::ios::binary);
    out.write("\x93NUMPY\x01\x00", 8).put(static_cast<char>(header.size() & 255)).put(static_cast<char>(header.size() >> 8)) << header;
    out.write(reinterpret_cast<const char*>(data), static_cast<std::streamsize>(count * sizeof(T)));
    if (!out.flush()) throw std::runtime_error("alignkit::tap cannot write " + unfinished.string());
  }
  fs::rename(unfinished, target);
  double low = INFINITY, high = -INFINITY;
  bool finite = count > 0;
  for (std::size_t i = 0; i < count; ++i) { const double x = static_cast<double>(data[i]); finite = finite && std::isfinite(x); if (x < low) low = x; if (x > high) high = x; }
  const std::string dtype = type == 'b' ? "bool" : (type == 'u' ? "uint" : type == 'i' ? "int" : "float") + std::to_string(8 * sizeof(T));
  const double now = std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
  std::ostringstream line;  // the program's own locale may write numbers that are no JSON
  line.imbue(std::locale::classic());
  line << std::setprecision(17) << "{\"tap\": 1, \"stage\": \"" << escaped(stage, "\"\\", true) << "\", \"image\": \"" << escaped(image, "\"\\", true)
       << "\", \"file\": \"" << escaped(file.generic_string(), "\"\\", true) << "\", \"shape\": [" << list << "], \"dtype\": \"" << dtype << "\", ";
  if (finite) line << "\"min\": " << low << ", \"max\": " << high; else line << "\"min\": null, \"max\": null";
  line << ", \"time\": " << now << ", \"process\": \"" << to.log.substr(5, 12) << "\"}\n";
  std::lock_guard<std::mutex> held(to.lock);
  std::ofstream lines(fs::path(to.folder) / to.log, std::ios::app | std::ios::binary);
  if (!(lines << line.str()).flush()) throw std::runtime_error("alignkit::tap cannot write " + to.log);
}

}  // namespace tap_detail

/// Record numbers in C order as `stage` of the file `image`. Throws std::runtime_error if it cannot.
template <class T>
void tap(const std::string& stage, const T* data, const std::vector<std::size_t>& shape, const std::string& image) {
  if (tap_detail::recorder().wanted(stage, image)) tap_detail::write(stage, data, shape, image);
}

/// Record a cv::Mat of 8-bit or float channels; continuous or not.
template <class Mat, class = decltype(std::declval<Mat>().elemSize1())>
void tap(const std::string& stage, const Mat& mat, const std::string& image) {
  if (!tap_detail::recorder().wanted(stage, image)) return;
  const Mat whole = mat.isContinuous() ? mat : mat.clone();
  const std::vector<std::size_t> shape = {std::size_t(mat.rows), std::size_t(mat.cols), std::size_t(mat.channels())};
  if (mat.depth() == 0) return tap_detail::write(stage, whole.template ptr<std::uint8_t>(), shape, image);  // CV_8U
  if (mat.depth() == 5) return tap_detail::write(stage, whole.template ptr<float>(), shape, image);         // CV_32F
  throw std::runtime_error("alignkit::tap records matrices of CV_8U and CV_32F");
}
}  // namespace alignkit
