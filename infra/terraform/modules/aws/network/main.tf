# Dual-stack subnets. Functions use private subnets in a few zones with an IPv6 egress-only gateway,
# which is free. Machines use public subnets in every zone. S3 has a gateway endpoint. `nat` adds a
# NAT gateway for IPv4 to the private subnets of every zone.

variable "name" {
  description = "Prefix of the names of all resources."
  type        = string
}

variable "cidr" {
  description = "IPv4 range of the network, a /16."
  type        = string
}

variable "zones" {
  description = "Availability zones of machines. Each has a number from 0 to 7, which determines the addresses of its subnets."
  type        = map(number)
}

variable "function_zones" {
  description = "The zones that have functions and the database."
  type        = list(string)
}

variable "nat" {
  description = "Let IPv4 leave the private subnets by a NAT gateway, which costs money by the hour."
  type        = bool
  default     = false
}

locals {
  # The zones, sorted by number.
  zones = flatten([for number in range(8) : [for zone, own in var.zones : zone if own == number]])
}

resource "aws_vpc" "this" {
  cidr_block                       = var.cidr
  assign_generated_ipv6_cidr_block = true
  enable_dns_support               = true
  enable_dns_hostnames             = true
  tags                             = { Name = var.name }
}

# AWS gives this group to resources without a group of their own. It has no rules, so it allows no traffic.
resource "aws_default_security_group" "this" {
  vpc_id = aws_vpc.this.id
}

resource "aws_internet_gateway" "this" {
  vpc_id = aws_vpc.this.id
  tags   = { Name = var.name }
}

resource "aws_egress_only_internet_gateway" "this" {
  vpc_id = aws_vpc.this.id
  tags   = { Name = var.name }
}

resource "aws_subnet" "private" {
  for_each                        = { for zone, number in var.zones : zone => number if var.nat || contains(var.function_zones, zone) }
  vpc_id                          = aws_vpc.this.id
  availability_zone               = each.key
  cidr_block                      = cidrsubnet(var.cidr, 4, each.value)
  ipv6_cidr_block                 = cidrsubnet(aws_vpc.this.ipv6_cidr_block, 8, each.value)
  assign_ipv6_address_on_creation = true
  tags                            = { Name = "${var.name}-private-${each.key}" }
}

resource "aws_subnet" "public" {
  for_each                        = var.zones
  vpc_id                          = aws_vpc.this.id
  availability_zone               = each.key
  cidr_block                      = cidrsubnet(var.cidr, 4, 8 + each.value)
  ipv6_cidr_block                 = cidrsubnet(aws_vpc.this.ipv6_cidr_block, 8, 128 + each.value)
  assign_ipv6_address_on_creation = true
  tags                            = { Name = "${var.name}-public-${each.key}" }
}

resource "aws_route_table" "private" {
  vpc_id = aws_vpc.this.id
  tags   = { Name = "${var.name}-private" }
}

resource "aws_route" "private_ipv6" {
  route_table_id              = aws_route_table.private.id
  destination_ipv6_cidr_block = "::/0"
  egress_only_gateway_id      = aws_egress_only_internet_gateway.this.id
}

resource "aws_eip" "nat" {
  count  = var.nat ? 1 : 0
  domain = "vpc"
  tags   = { Name = "${var.name}-nat" }
}

# One NAT gateway serves all zones. A second one would double the price, and the cluster replaces machines of a failed zone in
# other zones anyway.
resource "aws_nat_gateway" "this" {
  count         = var.nat ? 1 : 0
  allocation_id = aws_eip.nat[0].id
  subnet_id     = aws_subnet.public[local.zones[0]].id
  tags          = { Name = var.name }

  depends_on = [aws_route.public_ipv4]
}

resource "aws_route" "private_ipv4" {
  count                  = var.nat ? 1 : 0
  route_table_id         = aws_route_table.private.id
  destination_cidr_block = "0.0.0.0/0"
  nat_gateway_id         = aws_nat_gateway.this[0].id
}

resource "aws_route_table" "public" {
  vpc_id = aws_vpc.this.id
  tags   = { Name = "${var.name}-public" }
}

resource "aws_route" "public_ipv4" {
  route_table_id         = aws_route_table.public.id
  destination_cidr_block = "0.0.0.0/0"
  gateway_id             = aws_internet_gateway.this.id
}

resource "aws_route" "public_ipv6" {
  route_table_id              = aws_route_table.public.id
  destination_ipv6_cidr_block = "::/0"
  gateway_id                  = aws_internet_gateway.this.id
}

resource "aws_route_table_association" "private" {
  for_each       = aws_subnet.private
  subnet_id      = each.value.id
  route_table_id = aws_route_table.private.id
}

resource "aws_route_table_association" "public" {
  for_each       = aws_subnet.public
  subnet_id      = each.value.id
  route_table_id = aws_route_table.public.id
}

data "aws_region" "current" {}

resource "aws_vpc_endpoint" "s3" {
  vpc_id            = aws_vpc.this.id
  service_name      = "com.amazonaws.${data.aws_region.current.name}.s3"
  vpc_endpoint_type = "Gateway"
  route_table_ids   = [aws_route_table.private.id, aws_route_table.public.id]
  tags              = { Name = "${var.name}-s3" }
}

output "vpc_id" {
  description = "The VPC."
  value       = aws_vpc.this.id
}

output "function_subnet_ids" {
  description = "Private subnets of functions and database, in the order of function_zones."
  value       = [for zone in var.function_zones : aws_subnet.private[zone].id]
}

output "private_subnet_ids" {
  description = "Private subnets, in the order of the zones' numbers. With NAT, each zone has one for machines."
  value       = [for zone in local.zones : aws_subnet.private[zone].id if contains(keys(aws_subnet.private), zone)]
}

output "public_subnet_ids" {
  description = "Subnets of machines, in the order of the zones' numbers."
  value       = [for zone in local.zones : aws_subnet.public[zone].id]
}
