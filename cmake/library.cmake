# The library. A folder of src/ is one word in this list, a file in it needs no line anywhere.
set(SNLS_FOLDERS base simd op ref cpu flow denoise metrics io video nn model pipeline)
list(TRANSFORM SNLS_FOLDERS REPLACE "(.+)" "${PROJECT_SOURCE_DIR}/src/\\1/*.c" OUTPUT_VARIABLE patterns)
file(GLOB SNLS_SOURCES CONFIGURE_DEPENDS ${patterns})
list(FILTER SNLS_SOURCES EXCLUDE REGEX "/src/video/ffmpeg[^/]*\\.c$") # cmake/ffmpeg.cmake builds them

# Instruction sets: only these files get such flags, and only x86-64 has them at all.
set(SNLS_AVX2_FLAGS -mavx2 -mfma -mf16c)
set(SNLS_AVX512_FLAGS -mavx512f -mavx512bw -mavx512dq -mavx512vl -mfma -mf16c -mprefer-vector-width=512)
set(SNLS_VNNI_FLAGS ${SNLS_AVX512_FLAGS} -mavx512vnni)
set(SNLS_AMX_FLAGS ${SNLS_AVX512_FLAGS} -mavx512bf16 -mamx-tile -mamx-bf16)
foreach(isa avx2 avx512 vnni amx)
    string(TOUPPER ${isa} upper)
    set(files ${SNLS_SOURCES})
    list(FILTER files INCLUDE REGEX "/src/simd/[^/]*_${isa}\\.c$")
    if(SNLS_X86)
        set_source_files_properties(${files} PROPERTIES COMPILE_OPTIONS "${SNLS_${upper}_FLAGS};${SNLS_SANITIZE_LOOPS}")
    elseif(files)
        list(REMOVE_ITEM SNLS_SOURCES ${files})
    endif()
endforeach()
set(files ${SNLS_SOURCES})
list(FILTER files INCLUDE REGEX "/src/simd/[^/]*_bf16\\.c$")
if(SNLS_HAVE_BF16)
    set_source_files_properties(${files} PROPERTIES COMPILE_OPTIONS "-march=armv8.2-a+bf16")
else()
    list(REMOVE_ITEM SNLS_SOURCES ${files})
endif()
if(NOT SNLS_AARCH64) # every such machine has NEON: no flags
    list(FILTER SNLS_SOURCES EXCLUDE REGEX "/src/simd/[^/]*_neon\\.c$")
elseif(CMAKE_C_COMPILER_ID STREQUAL "GNU") # sums that fill the registers: before these are given out nothing may move
    set_source_files_properties(${PROJECT_SOURCE_DIR}/src/simd/dsp_neon.c ${PROJECT_SOURCE_DIR}/src/simd/group_neon.c PROPERTIES COMPILE_OPTIONS -fno-schedule-insns)
    # vectors also of what depends on a comparison: numbers are the same, flags of exceptions nobody reads
    set_source_files_properties(${PROJECT_SOURCE_DIR}/src/simd/layers_loops.c PROPERTIES COMPILE_OPTIONS -fno-trapping-math)
endif()
if(NOT SNLS_SOURCES)
    message(FATAL_ERROR "src/ holds no C file")
endif()

# What the archive needs at link time: in this build as targets, outside (pkg-config, CMake package) as linker words. Each stands before what
# it needs itself, for programs that take archives of all of them (-static): the words of the C library are the last.
find_package(Threads REQUIRED)
set(SNLS_LINK_TARGETS m ${CMAKE_DL_LIBS} Threads::Threads)
set(SNLS_LINK_WORDS)
if(SNLS_HAVE_OPENMP)
    list(APPEND SNLS_LINK_TARGETS OpenMP::OpenMP_C)
    list(APPEND SNLS_LINK_WORDS ${OpenMP_C_FLAGS})
endif()
if(SNLS_HAVE_PNG)
    list(APPEND SNLS_LINK_TARGETS PNG::PNG)
    list(APPEND SNLS_LINK_WORDS -lpng -lz)
endif()
if(SNLS_HAVE_LAPACK)
    list(APPEND SNLS_LINK_TARGETS LAPACK::LAPACK)
    foreach(library ${LAPACK_LIBRARIES}) # liblapack and libblas, or one library that is both
        string(REGEX REPLACE "^.*/lib([^/]+)\\.(so|a)$" "-l\\1" word ${library})
        list(APPEND SNLS_LINK_WORDS ${word})
    endforeach()
endif()
if(SNLS_HAVE_JPEG)
    list(APPEND SNLS_LINK_TARGETS JPEG::JPEG)
    list(APPEND SNLS_LINK_WORDS -ljpeg)
endif()

if(SNLS_HAVE_JANSSON)
    list(APPEND SNLS_LINK_TARGETS PkgConfig::jansson)
    list(APPEND SNLS_LINK_WORDS -ljansson)
endif()
if(SNLS_HAVE_DNNL)
    list(APPEND SNLS_LINK_TARGETS ${SNLS_DNNL_LIBRARY})
    list(APPEND SNLS_LINK_WORDS -ldnnl)
endif()
list(APPEND SNLS_LINK_WORDS -lm -ldl -pthread)

# The soname's number: a program runs with every library that has the number it was linked to. Before 1.0 a minor version may change structs
# and values, so each has a number of its own: 0 is that of 0.1, 1 that of 0.2. From 1.0 on a major version has one; they go on above those
# of 0.x, of which there are as many as SNLS_SONAMES_BEFORE_1 says, to be written here with 1.0.
set(SNLS_SONAMES_BEFORE_1)
if(PROJECT_VERSION_MAJOR EQUAL 0)
    math(EXPR SNLS_SOVERSION "${PROJECT_VERSION_MINOR} - 1")
elseif(SNLS_SONAMES_BEFORE_1)
    math(EXPR SNLS_SOVERSION "${SNLS_SONAMES_BEFORE_1} + ${PROJECT_VERSION_MAJOR} - 1")
else()
    message(FATAL_ERROR "cmake/library.cmake: SNLS_SONAMES_BEFORE_1 must say how many minor versions there were before 1.0")
endif()

add_library(snls_objects OBJECT ${SNLS_SOURCES})
set_target_properties(snls_objects PROPERTIES POSITION_INDEPENDENT_CODE ON)
target_include_directories(snls_objects PRIVATE include src)
target_link_libraries(snls_objects PRIVATE snls_flags ${SNLS_LINK_TARGETS})
target_compile_definitions(snls_objects PRIVATE $<$<BOOL:${SNLS_HAVE_PNG}>:SNLS_HAVE_PNG=1> $<$<BOOL:${SNLS_HAVE_JPEG}>:SNLS_HAVE_JPEG=1> $<$<BOOL:${SNLS_HAVE_LAPACK}>:SNLS_HAVE_LAPACK=1> $<$<BOOL:${SNLS_HAVE_AMX}>:SNLS_HAVE_AMX=1> $<$<BOOL:${SNLS_HAVE_BF16}>:SNLS_HAVE_BF16=1>
    $<$<BOOL:${SNLS_HAVE_JANSSON}>:SNLS_HAVE_JANSSON=1> $<$<BOOL:${SNLS_HAVE_DNNL}>:SNLS_HAVE_DNNL=1>)

if(DEFINED BUILD_SHARED_LIBS AND NOT BUILD_SHARED_LIBS)
    message(NOTICE "snls: BUILD_SHARED_LIBS=OFF changes nothing: both libraries are built, snls::snls-static is the archive")
endif()
add_library(snls_shared SHARED $<TARGET_OBJECTS:snls_objects>)
target_link_libraries(snls_shared PRIVATE $<BUILD_INTERFACE:snls_flags> ${SNLS_LINK_TARGETS})
set_target_properties(snls_shared PROPERTIES OUTPUT_NAME snls EXPORT_NAME snls LINKER_LANGUAGE C
    VERSION ${PROJECT_VERSION} SOVERSION ${SNLS_SOVERSION})

add_library(snls_static STATIC $<TARGET_OBJECTS:snls_objects>)
target_link_libraries(snls_static INTERFACE "$<BUILD_INTERFACE:${SNLS_LINK_TARGETS}>" "$<INSTALL_INTERFACE:${SNLS_LINK_WORDS}>")
set_target_properties(snls_static PROPERTIES OUTPUT_NAME snls EXPORT_NAME snls-static LINKER_LANGUAGE C)

foreach(library snls_shared snls_static)
    target_include_directories(${library} INTERFACE
        $<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}/include> $<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}>)
endforeach()
add_library(snls::snls ALIAS snls_shared)
add_library(snls::snls-static ALIAS snls_static)
