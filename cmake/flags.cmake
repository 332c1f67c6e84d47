# Flags of every C file, and what the machine has: target snls_flags, variables SNLS_HAVE_OPENMP, SNLS_HAVE_PNG, SNLS_HAVE_JPEG, SNLS_HAVE_LAPACK,
# SNLS_HAVE_JANSSON, SNLS_HAVE_DNNL, SNLS_X86, SNLS_AARCH64.
add_library(snls_flags INTERFACE)
target_compile_options(snls_flags INTERFACE
    -Wall -Wextra -Wshadow -Wstrict-prototypes -Wmissing-prototypes
    -ffp-contract=off -fno-math-errno
    $<$<C_COMPILER_ID:Clang,AppleClang>:-Wno-pass-failed> # src/simd/unroll.h: some loops of a kind have constant ends, and are written out, others have not
    $<$<BOOL:${SNLS_WERROR}>:-Werror>)

set(SNLS_SANITIZE_SOURCE) # part of every program of a sanitizer build
set(SNLS_SANITIZE_LOOPS)  # what loops over vectors are spared: AddressSanitizer looks at every access, and these questions about each pointer are two fifths of the time to compile them
if(SNLS_SANITIZE)
    set(SNLS_SANITIZE_SOURCE ${PROJECT_SOURCE_DIR}/cmake/asan_options.c)
    set(sanitize -fsanitize=${SNLS_SANITIZE} -fno-sanitize-recover=all -fno-omit-frame-pointer)
    if(SNLS_SANITIZE MATCHES "undefined")
        set(SNLS_SANITIZE_LOOPS -fno-sanitize=null,alignment,object-size,pointer-overflow)
    endif()
    target_compile_options(snls_flags INTERFACE ${sanitize} -g1) # lines for what a sanitizer says; where variables lie takes longer than to compile
    target_link_options(snls_flags INTERFACE ${sanitize})
endif()
if(SNLS_LIBFUZZER)
    if(NOT CMAKE_C_COMPILER_ID MATCHES "Clang")
        message(FATAL_ERROR "SNLS_LIBFUZZER needs clang, the compiler is ${CMAKE_C_COMPILER_ID}")
    endif()
    target_compile_options(snls_flags INTERFACE -fsanitize=fuzzer-no-link)
endif()

set(SNLS_HAVE_OPENMP OFF)
if(SNLS_WITH_OPENMP)
    find_package(OpenMP COMPONENTS C)
    set(SNLS_HAVE_OPENMP ${OpenMP_C_FOUND})
endif()
if(NOT SNLS_HAVE_OPENMP)
    message(STATUS "No OpenMP: the cpu backend runs on one thread")
    target_compile_options(snls_flags INTERFACE -Wno-unknown-pragmas -Wno-unused-parameter) # num_threads(ctx->threads) is all that some look at
endif()

# An optional library: SNLS_HAVE_<NAME> says whether it was wanted and found, `without` what is missing then.
macro(snls_find_optional name without)
    set(SNLS_HAVE_${name} OFF)
    if(SNLS_WITH_${name})
        find_package(${name})
        set(SNLS_HAVE_${name} ${${name}_FOUND})
    endif()
    if(NOT SNLS_HAVE_${name})
        message(STATUS "No ${name}: ${without}")
    endif()
endmacro()
snls_find_optional(PNG "PNG can be neither read nor written")
snls_find_optional(JPEG "JPEG cannot be read")
snls_find_optional(LAPACK "no denoiser vnlb and no ST-RRED")

set(SNLS_HAVE_JANSSON OFF)
if(SNLS_WITH_JANSSON)
    find_package(PkgConfig QUIET)
    if(PkgConfig_FOUND)
        pkg_check_modules(jansson QUIET IMPORTED_TARGET jansson)
    endif()
    if(jansson_FOUND)
        set(SNLS_HAVE_JANSSON ON)
    endif()
endif()
if(NOT SNLS_HAVE_JANSSON)
    message(STATUS "No jansson: safetensors files and networks' manifests cannot be read")
endif()

set(SNLS_HAVE_DNNL OFF)
if(SNLS_WITH_DNNL)
    # by hand: the package file of Debian's oneDNN wants OpenCL's development files, which nothing here needs
    find_path(SNLS_DNNL_INCLUDE oneapi/dnnl/dnnl.h)
    find_library(SNLS_DNNL_LIBRARY dnnl)
    if(SNLS_DNNL_INCLUDE AND SNLS_DNNL_LIBRARY)
        set(SNLS_HAVE_DNNL ON)
    endif()
endif()
if(NOT SNLS_HAVE_DNNL)
    message(STATUS "No oneDNN: networks run in plain loops")
endif()

set(SNLS_X86 OFF)
if(CMAKE_SYSTEM_PROCESSOR MATCHES "^(x86_64|amd64|AMD64)$" AND CMAKE_SIZEOF_VOID_P EQUAL 8)
    set(SNLS_X86 ON)
endif()

set(SNLS_AARCH64 OFF)
if(CMAKE_SYSTEM_PROCESSOR MATCHES "^(aarch64|arm64|ARM64)$" AND CMAKE_SIZEOF_VOID_P EQUAL 8)
    set(SNLS_AARCH64 ON)
endif()

# Matrix tiles: compilers since gcc 11 and clang 12.
include(CheckCCompilerFlag)
if(SNLS_X86)
    check_c_compiler_flag("-mavx512bf16 -mamx-tile -mamx-bf16" SNLS_HAVE_AMX)
endif()
if(SNLS_AARCH64)
    check_c_compiler_flag("-march=armv8.2-a+bf16" SNLS_HAVE_BF16)
endif()
