// A stand-in for libcuda.so.1, with what graphics.cpp calls of it: one GPU. Signatures are those of
// NVIDIA's driver API.
#include <cstddef>
#include <cstdio>
#include <cstring>

extern "C" {

int cuInit(unsigned flags) {
  return flags == 0 ? 0 : 1;
}

int cuDriverGetVersion(int* version) {
  *version = 13000;
  return 0;
}

int cuDeviceGet(int* device, int ordinal) {
  *device = 40 + ordinal;  // a handle is no ordinal
  return ordinal == 0 ? 0 : 101;
}

int cuDeviceGetName(char* name, int size, int device) {
  std::snprintf(name, static_cast<size_t>(size), "Stand-in GPU %d", device);
  return 0;
}

int cuDeviceTotalMem_v2(size_t* bytes, int /*device*/) {
  *bytes = size_t{80} << 30;
  return 0;
}

int cuDeviceGetAttribute(int* value, int attribute, int /*device*/) {
  switch (attribute) {
    case 75:
      *value = 9;
      return 0;
    case 76:
      *value = 0;
      return 0;
    case 16:
      *value = 132;
      return 0;
    default:
      return 1;
  }
}

int cuDeviceGetPCIBusId(char* text, int size, int device) {
  std::snprintf(text, static_cast<size_t>(size), "0000:%02d:00.0", device);
  return 0;
}

int cuDeviceGetUuid_v2(unsigned char* uuid, int /*device*/) {
  for (int i = 0; i < 16; ++i) uuid[i] = static_cast<unsigned char>(17 * i);  // 00 11 22 ...
  return 0;
}

}  // extern "C"
