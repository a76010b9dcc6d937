#include "simd/simd.h"
