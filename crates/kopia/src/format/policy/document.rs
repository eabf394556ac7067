//! The document of a policy manifest. Absent, 0 and empty mean that the policies above decide.

use crate::format::FormatError;
use crate::format::json::{ArrayWriter, ObjectWriter, Reader, write_string};

const STRUCTURE: &str = "policy";

/// A policy as it is stored, or several that were merged.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Policy {
    /// The snapshots that are kept.
    pub retention: RetentionPolicy,
    /// The files that are left out.
    pub files: FilesPolicy,
    /// The errors that are passed over.
    pub errors: ErrorPolicy,
    /// The compression of file data.
    pub compression: CompressionPolicy,
    /// The name of the compression of directories and listings.
    pub metadata_compressor: String,
    /// The name of the splitter of file data.
    pub splitter: String,
    /// The way in which files are read.
    pub upload: UploadPolicy,
    /// Sections of others that are given back as they stand: `scheduling`, `actions`, `osSnapshots`, `logging`.
    pub others: OtherSections,
    /// True where no policy above counts, and no default either.
    pub no_parent: bool,
}

/// The snapshots that are kept: so many of the newest, and of each hour, day, week, month, year.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
#[allow(missing_docs, reason = "the format's own names")]
pub struct RetentionPolicy {
    pub keep_latest: Option<i64>,
    pub keep_hourly: Option<i64>,
    pub keep_daily: Option<i64>,
    pub keep_weekly: Option<i64>,
    pub keep_monthly: Option<i64>,
    pub keep_annual: Option<i64>,
    pub ignore_identical_snapshots: Option<bool>,
}

/// The files that are left out.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct FilesPolicy {
    /// Rules as in `.gitignore`.
    pub ignore: Vec<String>,
    /// True where rules of policies above do not count.
    pub no_parent_ignore: bool,
    /// Names of files with such rules.
    pub dot_ignore_files: Vec<String>,
    /// True where those of policies above do not count.
    pub no_parent_dot_files: bool,
    /// True where directories with a mark of caches are stored empty; also when it is unset.
    pub ignore_cache_dirs: Option<bool>,
    /// The longest file; 0 for any.
    pub max_file_size: i64,
    /// True where other file systems are left out.
    pub one_file_system: Option<bool>,
}

/// The errors that are passed over.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ErrorPolicy {
    /// Files that cannot be read.
    pub ignore_file_errors: Option<bool>,
    /// Directories that cannot be read.
    pub ignore_directory_errors: Option<bool>,
    /// Sockets, devices and whatever else cannot be stored; also when it is unset.
    pub ignore_unknown_types: Option<bool>,
}

/// The compression of file data.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct CompressionPolicy {
    /// The name; `none` for none.
    pub compressor: String,
    /// Extensions, with point, that are compressed; others are, too.
    pub only_compress: Vec<String>,
    /// True where those of policies above do not count.
    pub no_parent_only_compress: bool,
    /// Extensions, with point, that are not compressed.
    pub never_compress: Vec<String>,
    /// True where those of policies above do not count.
    pub no_parent_never_compress: bool,
    /// The shortest file that is compressed; 0 for any.
    pub min_size: i64,
    /// The longest file that is compressed; 0 for any.
    pub max_size: i64,
}

/// The way in which files are read.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct UploadPolicy {
    /// The most snapshots at once.
    pub max_parallel_snapshots: Option<i64>,
    /// The most files at once.
    pub max_parallel_file_reads: Option<i64>,
    /// The length from which a file is uploaded in parts of that length.
    pub parallel_upload_above_size: Option<i64>,
}

/// Sections that are given back as they stand, as JSON.
#[derive(Debug, Clone, PartialEq, Eq)]
#[allow(missing_docs, reason = "the format's own names")]
pub struct OtherSections {
    pub scheduling: String,
    pub actions: String,
    pub os_snapshots: String,
    pub logging: String,
}

impl Default for OtherSections {
    fn default() -> Self {
        Self {
            scheduling: "{}".to_owned(),
            actions: "{}".to_owned(),
            os_snapshots: r#"{"volumeShadowCopy":{}}"#.to_owned(),
            logging: r#"{"directories":{},"entries":{}}"#.to_owned(),
        }
    }
}

impl Policy {
    /// Reads the document of a manifest.
    ///
    /// # Errors
    /// Another document.
    pub fn parse(data: &str) -> Result<Self, FormatError> {
        let mut policy = Self::default();
        let mut reader = Reader::new(STRUCTURE, data.as_bytes());
        reader.object::<FormatError>(|reader, key| {
            match key {
                "retention" => read_retention(reader, &mut policy.retention)?,
                "files" => read_files(reader, &mut policy.files)?,
                "errorhandling" => read_errors(reader, &mut policy.errors)?,
                "scheduling" => policy.others.scheduling = reader.raw()?,
                "compression" => read_compression(reader, &mut policy.compression)?,
                "metadatacompression" => read_name(reader, "compressorname", &mut policy.metadata_compressor)?,
                "splitter" => read_name(reader, "algorithm", &mut policy.splitter)?,
                "actions" => policy.others.actions = reader.raw()?,
                "ossnapshots" => policy.others.os_snapshots = reader.raw()?,
                "logging" => policy.others.logging = reader.raw()?,
                "upload" => read_upload(reader, &mut policy.upload)?,
                "noparent" => policy.no_parent = reader.boolean()?,
                _ => reader.skip()?,
            }
            Ok(())
        })?;
        reader.end()?;
        Ok(policy)
    }

    /// Writes the document of a manifest.
    pub fn write(&self) -> Vec<u8> {
        let mut out = Vec::new();
        let mut object = ObjectWriter::begin(&mut out);
        write_retention(object.key("retention"), &self.retention);
        write_files(object.key("files"), &self.files);
        let mut errors = ObjectWriter::begin(object.key("errorHandling"));
        optional(&mut errors, "ignoreFileErrors", self.errors.ignore_file_errors);
        optional(&mut errors, "ignoreDirectoryErrors", self.errors.ignore_directory_errors);
        optional(&mut errors, "ignoreUnknownTypes", self.errors.ignore_unknown_types);
        errors.end();
        object.plain("scheduling", &self.others.scheduling);
        write_compression(object.key("compression"), &self.compression);
        for (section, name, value) in [
            ("metadataCompression", "compressorName", &self.metadata_compressor),
            ("splitter", "algorithm", &self.splitter),
        ] {
            let mut part = ObjectWriter::begin(object.key(section));
            part.string_unless_empty(name, value);
            part.end();
        }
        object.plain("actions", &self.others.actions);
        object.plain("osSnapshots", &self.others.os_snapshots);
        object.plain("logging", &self.others.logging);
        let mut upload = ObjectWriter::begin(object.key("upload"));
        optional(&mut upload, "maxParallelSnapshots", self.upload.max_parallel_snapshots);
        optional(&mut upload, "maxParallelFileReads", self.upload.max_parallel_file_reads);
        optional(&mut upload, "parallelUploadAboveSize", self.upload.parallel_upload_above_size);
        upload.end();
        flag(&mut object, "noParent", self.no_parent);
        object.end();
        out
    }
}

type Fields<'a> = Reader<&'a [u8]>;

fn read_name(reader: &mut Fields<'_>, name: &str, into: &mut String) -> Result<(), FormatError> {
    reader.object(|reader, key| {
        if key != name {
            return reader.skip();
        }
        *into = reader.string()?;
        Ok(())
    })
}

fn read_strings(reader: &mut Fields<'_>) -> Result<Vec<String>, FormatError> {
    let mut strings = Vec::new();
    reader.array::<FormatError>(|reader| {
        strings.push(reader.string()?);
        Ok(())
    })?;
    Ok(strings)
}

fn read_retention(reader: &mut Fields<'_>, into: &mut RetentionPolicy) -> Result<(), FormatError> {
    reader.object(|reader, key| {
        let limit = match key {
            "keeplatest" => &mut into.keep_latest,
            "keephourly" => &mut into.keep_hourly,
            "keepdaily" => &mut into.keep_daily,
            "keepweekly" => &mut into.keep_weekly,
            "keepmonthly" => &mut into.keep_monthly,
            "keepannual" => &mut into.keep_annual,
            "ignoreidenticalsnapshots" => {
                into.ignore_identical_snapshots = Some(reader.boolean()?);
                return Ok(());
            }
            _ => return reader.skip(),
        };
        *limit = Some(reader.integer()?);
        Ok(())
    })
}

fn write_retention(out: &mut Vec<u8>, retention: &RetentionPolicy) {
    let mut object = ObjectWriter::begin(out);
    optional(&mut object, "keepLatest", retention.keep_latest);
    optional(&mut object, "keepHourly", retention.keep_hourly);
    optional(&mut object, "keepDaily", retention.keep_daily);
    optional(&mut object, "keepWeekly", retention.keep_weekly);
    optional(&mut object, "keepMonthly", retention.keep_monthly);
    optional(&mut object, "keepAnnual", retention.keep_annual);
    optional(&mut object, "ignoreIdenticalSnapshots", retention.ignore_identical_snapshots);
    object.end();
}

fn read_files(reader: &mut Fields<'_>, into: &mut FilesPolicy) -> Result<(), FormatError> {
    reader.object(|reader, key| {
        match key {
            "ignore" => into.ignore = read_strings(reader)?,
            "noparentignore" => into.no_parent_ignore = reader.boolean()?,
            "ignoredotfiles" => into.dot_ignore_files = read_strings(reader)?,
            "noparentdotfiles" => into.no_parent_dot_files = reader.boolean()?,
            "ignorecachedirs" => into.ignore_cache_dirs = Some(reader.boolean()?),
            "maxfilesize" => into.max_file_size = reader.integer()?,
            "onefilesystem" => into.one_file_system = Some(reader.boolean()?),
            _ => reader.skip()?,
        }
        Ok(())
    })
}

fn write_files(out: &mut Vec<u8>, files: &FilesPolicy) {
    let mut object = ObjectWriter::begin(out);
    strings(&mut object, "ignore", &files.ignore);
    flag(&mut object, "noParentIgnore", files.no_parent_ignore);
    strings(&mut object, "ignoreDotFiles", &files.dot_ignore_files);
    flag(&mut object, "noParentDotFiles", files.no_parent_dot_files);
    optional(&mut object, "ignoreCacheDirs", files.ignore_cache_dirs);
    object.number_unless_zero("maxFileSize", files.max_file_size);
    optional(&mut object, "oneFileSystem", files.one_file_system);
    object.end();
}

fn read_errors(reader: &mut Fields<'_>, into: &mut ErrorPolicy) -> Result<(), FormatError> {
    reader.object(|reader, key| {
        match key {
            "ignorefileerrors" => into.ignore_file_errors = Some(reader.boolean()?),
            "ignoredirectoryerrors" => into.ignore_directory_errors = Some(reader.boolean()?),
            "ignoreunknowntypes" => into.ignore_unknown_types = Some(reader.boolean()?),
            _ => reader.skip()?,
        }
        Ok(())
    })
}

fn read_compression(reader: &mut Fields<'_>, into: &mut CompressionPolicy) -> Result<(), FormatError> {
    reader.object(|reader, key| {
        match key {
            "compressorname" => into.compressor = reader.string()?,
            "onlycompress" => into.only_compress = read_strings(reader)?,
            "noparentonlycompress" => into.no_parent_only_compress = reader.boolean()?,
            "nevercompress" => into.never_compress = read_strings(reader)?,
            "noparentnevercompress" => into.no_parent_never_compress = reader.boolean()?,
            "minsize" => into.min_size = reader.integer()?,
            "maxsize" => into.max_size = reader.integer()?,
            _ => reader.skip()?,
        }
        Ok(())
    })
}

fn write_compression(out: &mut Vec<u8>, compression: &CompressionPolicy) {
    let mut object = ObjectWriter::begin(out);
    object.string_unless_empty("compressorName", &compression.compressor);
    strings(&mut object, "onlyCompress", &compression.only_compress);
    flag(&mut object, "noParentOnlyCompress", compression.no_parent_only_compress);
    strings(&mut object, "neverCompress", &compression.never_compress);
    flag(&mut object, "noParentNeverCompress", compression.no_parent_never_compress);
    object.number_unless_zero("minSize", compression.min_size);
    object.number_unless_zero("maxSize", compression.max_size);
    object.end();
}

fn read_upload(reader: &mut Fields<'_>, into: &mut UploadPolicy) -> Result<(), FormatError> {
    reader.object(|reader, key| {
        match key {
            "maxparallelsnapshots" => into.max_parallel_snapshots = Some(reader.integer()?),
            "maxparallelfilereads" => into.max_parallel_file_reads = Some(reader.integer()?),
            "paralleluploadabovesize" => into.parallel_upload_above_size = Some(reader.integer()?),
            _ => reader.skip()?,
        }
        Ok(())
    })
}

fn optional(object: &mut ObjectWriter<'_>, name: &str, value: Option<impl std::fmt::Display>) {
    if let Some(value) = value {
        object.plain(name, value);
    }
}

fn flag(object: &mut ObjectWriter<'_>, name: &str, value: bool) {
    if value {
        object.plain(name, true);
    }
}

fn strings(object: &mut ObjectWriter<'_>, name: &str, values: &[String]) {
    if values.is_empty() {
        return;
    }
    let mut list = ArrayWriter::begin(object.key(name));
    for value in values {
        write_string(list.item(), value.as_bytes());
    }
    list.end();
}
