# The bucket of code and checkpoints: encrypted, private and versioned.

variable "bucket" {
  description = "Name of the bucket."
  type        = string
}

variable "keep" {
  description = "Refuse to delete the bucket while it contains objects."
  type        = bool
}

variable "lifecycle_rules" {
  description = "Delete replaced versions after a month, then the markers of deleted objects. Also delete parts of incomplete uploads."
  type        = bool
}

resource "aws_s3_bucket" "this" {
  bucket        = var.bucket
  force_destroy = !var.keep
}

resource "aws_s3_bucket_public_access_block" "this" {
  bucket                  = aws_s3_bucket.this.id
  block_public_acls       = true
  block_public_policy     = true
  ignore_public_acls      = true
  restrict_public_buckets = true
}

resource "aws_s3_bucket_server_side_encryption_configuration" "this" {
  bucket = aws_s3_bucket.this.id

  rule {
    apply_server_side_encryption_by_default {
      sse_algorithm = "AES256"
    }
  }
}

resource "aws_s3_bucket_versioning" "this" {
  bucket = aws_s3_bucket.this.id

  versioning_configuration {
    status = "Enabled"
  }
}

resource "aws_s3_bucket_lifecycle_configuration" "this" {
  count  = var.lifecycle_rules ? 1 : 0
  bucket = aws_s3_bucket.this.id

  rule {
    id     = "old"
    status = "Enabled"

    filter {}

    noncurrent_version_expiration {
      noncurrent_days = 30
    }

    # A deleted object without versions keeps a marker, and listings become slower with each marker.
    expiration {
      expired_object_delete_marker = true
    }

    abort_incomplete_multipart_upload {
      days_after_initiation = 7
    }
  }
}

output "bucket" {
  description = "Name of the bucket."
  value       = aws_s3_bucket.this.bucket
}

output "arn" {
  description = "ARN of the bucket."
  value       = aws_s3_bucket.this.arn
}
